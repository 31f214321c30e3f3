/* Operations that only libpq has. */
#ifndef SVC_SHIM_LIBPQ_H
#define SVC_SHIM_LIBPQ_H

/* Rolls back open transactions on the connections that pg_pconnect() keeps for the thread, as ext/pgsql does at the end of
 * a request of classic mode (_rollback_transactions()). */
void shim_libpq_roll_back_persistent(void);

#endif
