//! The classification of the members of PHP's structs, and the structs that the shim redeclares.

/// A struct redeclared in the shim, because it has no header, or none that can be included without the headers of a
/// library.
pub(crate) struct Copy {
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    /// The file in PHP's sources, or the system header, that declares it.
    pub(crate) file: &'static str,
    /// Members with a different name in the shim.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
    /// Some versions or builds of PHP lack it.
    pub(crate) is_optional: bool,
}

const fn copy(ours: &'static str, theirs: &'static str, file: &'static str) -> Copy {
    Copy { ours, theirs, file, renamed: &[], is_optional: false }
}

/// The prefixes of the library headers that these files include.
pub(crate) const LIBRARIES: &[&str] =
    &["gmp.h", "libpq", "libxml/", "net-snmp/", "oniguruma.h", "openssl/", "unicode/"];

pub(crate) const COPIES: &[Copy] = &[
    copy("assert_globals", "zend_assert_globals", "ext/standard/assert.c"),
    copy("dir_globals", "php_dir_globals", "ext/standard/dir.c"),
    // PHP 8.3 lacks it.
    Copy { is_optional: true, ..copy("dom_globals", "zend_dom_globals", "ext/dom/php_dom.h") },
    copy("gmp_globals", "zend_gmp_globals", "ext/gmp/php_gmp.h"),
    copy("intl_globals", "zend_intl_globals", "ext/intl/php_intl.h"),
    copy("libxml_error", "xmlError", "libxml/xmlerror.h"),
    Copy {
        renamed: &[("entity_loader", "entity_loader_callback")],
        ..copy("libxml_globals", "zend_libxml_globals", "ext/libxml/php_libxml.h")
    },
    Copy {
        renamed: &[("expressions", "ht_rc")],
        ..copy("mb_regex_globals", "_zend_mb_regex_globals", "ext/mbstring/php_mbregex.c")
    },
    copy("mysqli_globals", "zend_mysqli_globals", "ext/mysqli/php_mysqli_structs.h"),
    copy("openssl_errors", "php_openssl_errors", "ext/openssl/php_openssl.h"),
    copy("openssl_globals", "zend_openssl_globals", "ext/openssl/php_openssl.h"),
    copy("pgsql_globals", "zend_pgsql_globals", "ext/pgsql/php_pgsql.h"),
    copy("posix_globals", "zend_posix_globals", "ext/posix/php_posix.h"),
    copy("snmp_globals", "zend_snmp_globals", "ext/snmp/php_snmp.h"),
    copy("soap_globals", "zend_soap_globals", "ext/soap/php_soap.h"),
    copy("sockets_globals", "zend_sockets_globals", "ext/sockets/php_sockets.h"),
];

/// A struct of which some members are switched with requests. The table of parts defines the ranges; the lists here
/// name the members that are switched and those that stay with the thread. Structs that are switched as a whole need no
/// list: new members are switched too.
pub(crate) struct Parted {
    pub(crate) extension: &'static str,
    pub(crate) name: &'static str,
    pub(crate) travels: &'static str,
    pub(crate) stays: &'static str,
}

pub(crate) const PARTED: &[Parted] = &[
    Parted {
        extension: "date",
        name: "zend_date_globals",
        travels: "timezone last_errors",
        stays: "default_timezone tzcache",
    },
    Parted {
        extension: "gmp",
        name: "gmp_globals",
        travels: "rand_initialized rand_state",
        // Used only while a function parses its arguments.
        stays: "zpp_arg",
    },
    Parted {
        extension: "intl",
        name: "intl_globals",
        travels: "current_collator compare_func g_error",
        // The iterator is reset for each text.
        stays: "default_locale grapheme_iterator error_level use_exceptions",
    },
    Parted {
        extension: "mbstring",
        name: "zend_mbstring_globals",
        travels: "current_internal_encoding current_http_output_encoding http_input_identify http_input_identify_get \
            http_input_identify_post http_input_identify_cookie http_input_identify_string current_detect_order_list \
            current_detect_order_list_size all_encodings_list current_filter_illegal_mode \
            current_filter_illegal_substchar illegalchars outconv_enabled outconv_state last_used_encoding_name \
            last_used_encoding internal_encoding_set http_output_set http_input_set",
        stays: "internal_encoding_name internal_encoding http_output_encoding http_input_list http_input_list_size \
            detect_order_list detect_order_list_size default_detect_order_list default_detect_order_list_size \
            filter_illegal_mode filter_illegal_substchar language encoding_translation strict_detection \
            http_output_conv_mimetypes mb_regex_globals regex_stack_limit regex_retry_limit",
    },
    Parted {
        extension: "mysqli",
        name: "mysqli_globals",
        travels: "error_no error_msg report_mode",
        stays: "num_links max_links num_active_persistent num_inactive_persistent max_persistent allow_persistent \
            default_port default_host default_user default_pw default_socket allow_local_infile \
            local_infile_directory rollback_on_cached_plink",
    },
    Parted {
        extension: "openssl",
        name: "openssl_globals",
        travels: "errors errors_mark",
        // Chosen by a directive of the system.
        stays: "ctx",
    },
    Parted {
        extension: "pcre",
        name: "zend_pcre_globals",
        travels: "error_code",
        stays: "per_request_cache backtrack_limit recursion_limit jit pcre_cache unmatched_null_pair \
            unmatched_empty_pair gctx_zmm",
    },
    Parted {
        extension: "pgsql",
        name: "pgsql_globals",
        travels: "default_link field_oids table_oids connections",
        stays: "num_links num_persistent max_links max_persistent allow_persistent ignore_notices \
            auto_reset_persistent log_notices regexes",
    },
    Parted {
        extension: "soap",
        name: "soap_globals",
        travels: "typemap cur_uniq_ns soap_version sdl use_soap_error_handler error_code error_object encoding \
            class_map features cur_uniq_ref ref_map",
        stays: "defEncNs defEnc defEncIndex cache cache_mode cache_enabled cache_dir cache_ttl cache_limit mem_cache \
            wsdl_cache",
    },
    Parted { extension: "sockets", name: "sockets_globals", travels: "last_error", stays: "strerror_buf" },
    Parted {
        extension: "standard",
        name: "assert_globals",
        travels: "callback",
        stays: "cb active bail warning exception",
    },
];

/// A struct of the engine of which some members are switched with requests.
pub(crate) struct EngineStruct {
    pub(crate) name: &'static str,
    /// The struct of the shim that stores them, or a member of it, under the same names.
    pub(crate) taken_by: (&'static str, Option<&'static str>),
    /// Members with a different name there, or stored elsewhere.
    pub(crate) otherwise: &'static str,
    /// Saved and restored with each fiber switch, by PHP or by c/worker/engine/stacks.c.
    pub(crate) fibers: &'static str,
    /// Kept by the worker: code, objects, caches; values of directives; and state used only during a single operation
    /// of the engine.
    pub(crate) threads: &'static str,
}

pub(crate) const ENGINE: &[EngineStruct] = &[
    EngineStruct {
        name: "zend_executor_globals",
        taken_by: ("shim_executor_state", None),
        otherwise: "last_fatal_error_backtrace timed_out modified_ini_directives",
        fibers: "bailout vm_stack_top vm_stack_end vm_stack vm_stack_page_size current_execute_data jit_trace_num \
            current_observed_frame stack_base stack_limit main_fiber_context current_fiber_context active_fiber \
            record_errors num_errors errors",
        threads: "uninitialized_zval error_zval symtable_cache symtable_cache_limit symtable_cache_ptr symbol_table \
            included_files fatal_error_backtrace_on function_table class_table zend_constants precision \
            persistent_constants_count persistent_functions_count persistent_classes_count no_extensions \
            full_tables_cleanup vm_interrupt hard_timeout regular_list persistent_list exception_ignore_args \
            capture_warnings_during_sccp timeout_seconds ini_directives error_reporting_ini_entry objects_store \
            lazy_objects_store exception_op current_module active \
            flags assertions ht_iterators_count ht_iterators_used ht_iterators ht_iterators_slots saved_fpu_cw_ptr \
            saved_fpu_cw trampoline call_trampoline_op weakrefs exception_string_param_max_len get_gc_buffer \
            fiber_stack_size call_stack \
            max_allowed_stack_size reserved_stack_size max_execution_timer_timer pid oldact strtod_state reserved",
    },
    // A request does not park while it compiles or links, except for the state that the shim keeps for it
    // (c/worker/engine/loading.c).
    EngineStruct {
        name: "zend_compiler_globals",
        taken_by: ("shim_executor_state", None),
        otherwise: "",
        fibers: "loop_var_stack active_class_entry compiled_filename zend_lineno active_op_array in_compilation \
            skip_shebang increment_lineno encoding_declared doc_comment extra_fn_flags compiler_options context \
            file_context ast ast_arena delayed_oplines_stack short_circuiting_opnums memoized_exprs memoize_mode \
            current_linking_class",
        threads: "function_table class_table auto_globals parse_error short_tags ini_parser_unbuffered_errors \
            open_files ini_parser_param arena interned_strings script_encoding_list script_encoding_list_size \
            multibyte detect_unicode map_ptr_real_base map_ptr_base map_ptr_size map_ptr_last \
            delayed_variance_obligations delayed_autoloads unlinked_uses rtd_key_counter \
            internal_run_time_cache internal_run_time_cache_size copied_functions_count",
    },
    EngineStruct {
        name: "php_file_globals",
        taken_by: ("shim_streams_state", None),
        otherwise: "",
        fibers: "",
        // Directives, and the buffer in which a libc function returns its result.
        threads: "def_chunk_size auto_detect_line_endings default_socket_timeout user_agent from_address pclose_wait \
            tmp_host_info",
    },
];
