/* Functions whose definitions in the executable precede those of libc, libphp, libcurl and libpq, by the file that
 * defines them. Included once per use of the list. */
/* php/bailout/mutexes.c */
SHIM_LIBC_NAME(tsrm_env_lock)
SHIM_LIBC_NAME(tsrm_env_unlock)
SHIM_LIBC_NAME(tsrm_mutex_lock)
SHIM_LIBC_NAME(tsrm_mutex_unlock)
/* php/bailout/transfers.c */
SHIM_LIBC_NAME(curl_easy_cleanup)
SHIM_LIBC_NAME(curl_easy_duphandle)
SHIM_LIBC_NAME(curl_easy_perform)
SHIM_LIBC_NAME(curl_easy_reset)
SHIM_LIBC_NAME(curl_easy_setopt)
SHIM_LIBC_NAME(curl_multi_add_handle)
SHIM_LIBC_NAME(curl_multi_cleanup)
SHIM_LIBC_NAME(curl_multi_info_read)
SHIM_LIBC_NAME(curl_multi_perform)
SHIM_LIBC_NAME(curl_multi_remove_handle)
SHIM_LIBC_NAME(curl_multi_setopt)
/* php/engine/iterative_free.c */
SHIM_LIBC_NAME(zend_array_destroy)
SHIM_LIBC_NAME(zend_objects_store_del)
/* php/engine/exception.c */
SHIM_LIBC_NAME(zend_exception_set_previous)
/* php/engine/execution_timer.c */
SHIM_LIBC_NAME(timer_create)
SHIM_LIBC_NAME(timer_delete)
SHIM_LIBC_NAME(timer_settime)
/* php/engine/lost_pages.c */
SHIM_LIBC_NAME(mmap)
SHIM_LIBC_NAME(mmap64)
/* php/engine/mysqlnd_statistics.c */
SHIM_LIBC_NAME(mysqlnd_stats_init)
/* php/engine/tsrm.c */
SHIM_LIBC_NAME(ts_allocate_fast_id)
SHIM_LIBC_NAME(ts_allocate_id)
/* php/files/locks.c */
SHIM_LIBC_NAME(fcntl)
SHIM_LIBC_NAME(fcntl64)
SHIM_LIBC_NAME(flock)
/* php/files/paths.c */
SHIM_LIBC_NAME(ftok)
SHIM_LIBC_NAME(mkfifo)
SHIM_LIBC_NAME(readlink)
SHIM_LIBC_NAME(statvfs)
SHIM_LIBC_NAME(virtual_access)
SHIM_LIBC_NAME(virtual_chmod)
SHIM_LIBC_NAME(virtual_chown)
SHIM_LIBC_NAME(virtual_creat)
SHIM_LIBC_NAME(virtual_fopen)
SHIM_LIBC_NAME(virtual_lstat)
SHIM_LIBC_NAME(virtual_mkdir)
SHIM_LIBC_NAME(virtual_open)
SHIM_LIBC_NAME(virtual_opendir)
SHIM_LIBC_NAME(virtual_rename)
SHIM_LIBC_NAME(virtual_rmdir)
SHIM_LIBC_NAME(virtual_stat)
SHIM_LIBC_NAME(virtual_unlink)
SHIM_LIBC_NAME(virtual_utime)
/* php/libc/attributes.c */
SHIM_LIBC_NAME(initgroups)
SHIM_LIBC_NAME(nice)
SHIM_LIBC_NAME(sched_setaffinity)
SHIM_LIBC_NAME(setegid)
SHIM_LIBC_NAME(seteuid)
SHIM_LIBC_NAME(setgid)
SHIM_LIBC_NAME(setns)
SHIM_LIBC_NAME(setpgid)
SHIM_LIBC_NAME(setpriority)
SHIM_LIBC_NAME(setrlimit)
SHIM_LIBC_NAME(setrlimit64)
SHIM_LIBC_NAME(setsid)
SHIM_LIBC_NAME(setuid)
SHIM_LIBC_NAME(umask)
SHIM_LIBC_NAME(unshare)
/* php/libc/environment.c */
SHIM_LIBC_NAME(getenv)
SHIM_LIBC_NAME(putenv)
SHIM_LIBC_NAME(setenv)
SHIM_LIBC_NAME(unsetenv)
/* php/libc/libc.c */
SHIM_LIBC_NAME(dlopen)
/* php/libc/locale.c */
SHIM_LIBC_NAME(setlocale)
/* php/libc/own_signals.c */
SHIM_LIBC_NAME(alarm)
SHIM_LIBC_NAME(kill)
SHIM_LIBC_NAME(sigtimedwait)
SHIM_LIBC_NAME(sigwaitinfo)
/* php/libc/syscall_elision.c */
SHIM_LIBC_NAME(getpid)
SHIM_LIBC_NAME(pthread_sigmask)
SHIM_LIBC_NAME(sigaction)
SHIM_LIBC_NAME(sigprocmask)
/* php/libc/system_log.c */
SHIM_LIBC_NAME(__syslog_chk)
SHIM_LIBC_NAME(__vsyslog_chk)
SHIM_LIBC_NAME(closelog)
SHIM_LIBC_NAME(openlog)
SHIM_LIBC_NAME(syslog)
SHIM_LIBC_NAME(vsyslog)
/* php/opcache/lock.c */
SHIM_LIBC_NAME(memfd_create)
/* php/process/children.c */
SHIM_LIBC_NAME(fork)
/* php/process/children_wait.c */
SHIM_LIBC_NAME(wait)
SHIM_LIBC_NAME(wait3)
SHIM_LIBC_NAME(wait4)
SHIM_LIBC_NAME(waitid)
SHIM_LIBC_NAME(waitpid)
/* php/process/programs.c */
SHIM_LIBC_NAME(execv)
SHIM_LIBC_NAME(execve)
SHIM_LIBC_NAME(pclose)
SHIM_LIBC_NAME(popen)
SHIM_LIBC_NAME(posix_spawn)
SHIM_LIBC_NAME(posix_spawnp)
/* php/request/script.c */
SHIM_LIBC_NAME(zend_deactivate_modules)
SHIM_LIBC_NAME(zend_message_dispatcher)
SHIM_LIBC_NAME(zend_objects_store_free_object_storage)
/* php/sapi/header_lines.c */
SHIM_LIBC_NAME(sapi_header_op)

#ifdef SVC_WORKER
/* worker/connections/libpq.c */
SHIM_LIBC_NAME(PQgetResult)
/* worker/connections/owners/file_locks.c */
SHIM_LIBC_NAME(close)
/* worker/connections/streams.c */
SHIM_LIBC_NAME(_php_stream_fill_read_buffer)
SHIM_LIBC_NAME(_php_stream_read)
SHIM_LIBC_NAME(_php_stream_set_option)
SHIM_LIBC_NAME(_php_stream_write)
/* worker/engine/guard.c */
SHIM_LIBC_NAME(zend_objects_store_mark_destructed)
/* worker/engine/loading.c */
SHIM_LIBC_NAME(zend_get_class_constant_ex)
/* worker/hooks/connecting.c */
SHIM_LIBC_NAME(connect)
/* worker/hooks/joining.c */
SHIM_LIBC_NAME(pthread_join)
/* worker/hooks/names.c */
SHIM_LIBC_NAME(getaddrinfo)
SHIM_LIBC_NAME(gethostbyname_r)
SHIM_LIBC_NAME(getnameinfo)
/* worker/hooks/pipes.c */
SHIM_LIBC_NAME(__read_chk)
SHIM_LIBC_NAME(read)
SHIM_LIBC_NAME(write)
/* worker/hooks/polling.c */
SHIM_LIBC_NAME(__poll_chk)
SHIM_LIBC_NAME(__ppoll_chk)
SHIM_LIBC_NAME(poll)
SHIM_LIBC_NAME(ppoll)
SHIM_LIBC_NAME(pselect)
SHIM_LIBC_NAME(select)
/* worker/hooks/records.c */
SHIM_LIBC_NAME(res_nsearch)
/* worker/hooks/sleeps.c */
SHIM_LIBC_NAME(usleep)
/* worker/hooks/sockets.c */
SHIM_LIBC_NAME(__recv_chk)
SHIM_LIBC_NAME(__recvfrom_chk)
SHIM_LIBC_NAME(accept)
SHIM_LIBC_NAME(accept4)
SHIM_LIBC_NAME(recv)
SHIM_LIBC_NAME(recvfrom)
SHIM_LIBC_NAME(recvmsg)
SHIM_LIBC_NAME(send)
SHIM_LIBC_NAME(sendmsg)
SHIM_LIBC_NAME(sendto)
#endif

#ifdef SVC_TRACE
/* trace/apm/pgsql_calls.c */
SHIM_LIBC_NAME(PQclear)
/* trace/failures.c */
SHIM_LIBC_NAME(zend_exception_error)
#endif
