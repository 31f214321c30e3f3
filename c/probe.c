/* Only preprocessed: the build script extracts the facts from the output. */
#include <main/php_version.h>
#include <main/php_config.h>

#ifdef ZTS
#define PROBE_ZTS 1
#else
#define PROBE_ZTS 0
#endif
#if defined(ZEND_SIGNALS) && ZEND_SIGNALS
#define PROBE_SIGNALS 1
#else
#define PROBE_SIGNALS 0
#endif
#if defined(ZEND_MAX_EXECUTION_TIMERS) && ZEND_MAX_EXECUTION_TIMERS
#define PROBE_TIMERS 1
#else
#define PROBE_TIMERS 0
#endif
#if defined(ZEND_DEBUG) && ZEND_DEBUG
#define PROBE_DEBUG 1
#else
#define PROBE_DEBUG 0
#endif

probe version PHP_VERSION_ID
probe zts PROBE_ZTS
probe signals PROBE_SIGNALS
probe timers PROBE_TIMERS
probe debug PROBE_DEBUG
