<?php
/** Operations with sessions, locks, streams, the process's state, and the header of the response. */
trait Streams
{
    private function do_session(string $handler, array $ops, string $then): void
    {
        // A handler stays for the request, and cannot be set after the header was sent.
        if ($handler === 'user' ? headers_sent() : $this->has_own_sessions) {
            return;
        }
        if (session_status() === PHP_SESSION_ACTIVE) {
            session_write_close();
        }
        $is_shared = $handler === 'shared';
        $name = $is_shared ? 'shared' : "own-$this->id";
        session_id($name);
        // This has ended an enclosing session of another name.
        $this->own['session id'] = [static fn () => session_id(), $name];
        $this->in_handler++;
        try {
            if ($handler === 'user') {
                $this->has_own_sessions = true;
                session_set_save_handler(new Memory(fn (string $where) => $this->wait(0.0005, "session $where")), false);
            }
            session_start();
        } catch (Svc\Async\CancelledException $cancelled) {
            // The session is new, but PHP empties $_SESSION before it reads a session.
            unset($this->own['session id']);
            $this->own['session'][1] = $_SESSION ?? null;
            throw $cancelled;
        } finally {
            $this->in_handler--;
        }
        if ($is_shared) {
            file_put_contents(getenv('CHAOS_FOLDER') . '/session-holder', $this->id);
            $_SESSION = [];
        } elseif (($_SESSION['who'] ?? $this->id) !== $this->id) {
            Baseline::report($this->id, 'has the session of another', $this->id, $_SESSION);
        }
        $_SESSION['who'] = $this->id;
        $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
        $this->own['session'][1] = $_SESSION;
        $this->check('session');
        $this->run($ops);
        $this->check('end of a session');
        if ($is_shared && ($holder = file_get_contents(getenv('CHAOS_FOLDER') . '/session-holder')) !== $this->id) {
            Baseline::report($this->id, 'shares the lock of a session', $this->id, $holder);
        }
        unset($this->own['session id']);
        match ($then) {
            'write' => session_write_close(),
            'destroy' => session_destroy(),
            'abort' => session_abort(),
            'leave' => null,
        };
        $this->check('after a session');
    }

    private function do_lock(array $ops): void
    {
        $lock = fopen(getenv('CHAOS_FOLDER') . '/lock', 'c+');
        flock($lock, LOCK_EX);
        ftruncate($lock, 0);
        fwrite($lock, $this->id);
        $this->run($ops);
        rewind($lock);
        $holder = stream_get_contents($lock);
        if ($holder !== $this->id) {
            Baseline::report($this->id, 'shares a lock', $this->id, $holder);
        }
        flock($lock, LOCK_UN);
        $this->check('lock');
    }

    private function do_pair(string $kind): void
    {
        [$left, $right] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if ($kind === 'time') {
            $ready = Svc\wait_readable($left, 0.001);
        } else {
            fwrite($right, $this->id);
            $ready = Svc\wait_readable($left, 5.0) && fread($left, 100) === $this->id;
        }
        if ($ready !== ($kind !== 'time')) {
            Baseline::report($this->id, "waits for a stream ($kind)", $kind !== 'time', $ready);
        }
        $this->check('pair');
    }

    private function do_wrapper(array $ops): void
    {
        $name = 'chaos' . strtolower(preg_replace('/\W/', '', $this->id)) . ++$this->uses;
        stream_wrapper_register($name, Wrapper::class);
        $context = stream_context_create([$name => ['run' => fn () => $this->run($ops), 'text' => $this->id]]);
        $text = file_get_contents("$name://x", false, $context);
        if ($text !== $this->id) {
            Baseline::report($this->id, 'reads another stream', $this->id, $text);
        }
        if (!in_array($name, stream_get_wrappers(), true)) {
            Baseline::report($this->id, 'misses its wrapper', $name, stream_get_wrappers());
        }
        stream_wrapper_unregister($name);
        $this->check('wrapper');
    }

    private function do_filter(array $ops): void
    {
        $name = "chaos.$this->id." . ++$this->uses;
        stream_filter_register($name, Filter::class);
        $stream = fopen('php://temp', 'w+');
        $left = 1;
        $filter = stream_filter_append($stream, $name, STREAM_FILTER_WRITE, function () use ($ops, &$left) {
            if ($left-- > 0) {
                $this->run($ops);
            }
        });
        fwrite($stream, $this->id);
        stream_filter_remove($filter);
        rewind($stream);
        $text = stream_get_contents($stream);
        if ($text !== strrev($this->id)) {
            Baseline::report($this->id, 'has another filter', strrev($this->id), $text);
        }
        $this->check('filter');
    }

    private function do_context(): void
    {
        stream_context_set_default(['http' => ['header' => "X-Own: $this->id"]]);
        $this->own['context'] = [static fn () => stream_context_get_options(stream_context_get_default())['http']['header'] ?? null, "X-Own: $this->id"];
    }

    private function do_env(string $name): void
    {
        putenv("CHAOS_$name=$this->id");
        $this->own["CHAOS_$name"] = [static fn () => getenv("CHAOS_$name"), $this->id];
        $this->check('env');
    }

    private function do_unset_env(): void
    {
        putenv('CHAOS_BOOT');
        $this->own['CHAOS_BOOT'][1] = false;
    }

    private function do_locale(string $name): void
    {
        setlocale(LC_ALL, $name);
        $this->own['locale'] = [static fn () => setlocale(LC_ALL, 0), setlocale(LC_ALL, 0)];
    }

    private function do_umask(int $mask): void
    {
        umask($mask);
        $this->own['umask'][1] = $mask;
    }

    private function do_chdir(int $n): void
    {
        $place = getenv('CHAOS_FOLDER') . "/d$n";
        chdir($place);
        $this->own['directory'][1] = $place;
        $this->own['relative'] = [static fn () => file_get_contents('name'), "d$n"];
        $this->check('chdir');
    }

    private function do_zone(string $name): void
    {
        date_default_timezone_set($name);
        $this->own['zone'] = [static fn () => date_default_timezone_get(), $name];
    }

    private function do_encoding(string $name): void
    {
        mb_internal_encoding($name);
        $this->own['mb'] = [static fn () => mb_internal_encoding(), $name];
    }

    private function do_libxml(): void
    {
        libxml_use_internal_errors(true);
        $document = new DOMDocument();
        $document->loadXML("<a>$this->id</b>");
        $mine = array_map(static fn ($error) => $error->message, libxml_get_errors());
        $this->own['libxml'] = [static fn () => array_map(static fn ($error) => $error->message, libxml_get_errors()), $mine];
    }

    private function do_random(int $seed): void
    {
        mt_srand($seed);
        $this->random = [];
        for ($i = 0; $i < 50; $i++) {
            $this->random[] = mt_rand();
        }
        mt_srand($seed);
    }

    private function do_tokens(): void
    {
        strtok(str_repeat("$this->id ", 3), ' ');
        $left = 2;
        $this->own['token'] = [function () use (&$left) { return $left-- > 0 ? strtok(' ') : $this->id; }, $this->id];
    }

    private function do_json(): void
    {
        json_decode('{');
        preg_match('/(?:\D+|<\d+>)*[!?]/', 'foobar foobar foobar');
        $mine = [json_last_error(), preg_last_error()];
        Svc\sleep(0.001);
        if ([json_last_error(), preg_last_error()] !== $mine) {
            Baseline::report($this->id, 'has the last errors of another', $mine, [json_last_error(), preg_last_error()]);
        }
    }

    private function do_header(int $n): void
    {
        if (headers_sent()) {
            return;
        }
        header("X-Chaos-$n: $this->id");
    }

    private function do_status(int $status): void
    {
        if (headers_sent()) {
            return;
        }
        http_response_code($status);
        $this->own['status'] = [static fn () => self::status($status), $status];
    }

    /** The status as set, unless the script has failed since: only the model knows where code runs after that. */
    private static function status(int $set): int
    {
        $now = http_response_code();
        return $now >= 500 ? $set : $now;
    }

    private function do_head_callback(array $ops): void
    {
        if (headers_sent()) {
            return;
        }
        header_register_callback(function () use ($ops) {
            // A response without output sends its header after the request was torn down.
            $was_over = $this->is_over;
            $calls = array_column(debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS), 'function');
            $this->is_over = $was_over || !in_array('run', $calls, true);
            $this->in_handler++;
            $this->in_buffer++;
            $this->run($ops);
            $this->in_buffer--;
            $this->in_handler--;
            $this->is_over = $was_over;
        });
    }

    private function do_flush(): void
    {
        while (count($this->texts) === 1 && ob_get_level() === 1) {
            $this->texts[0] = '';
            ob_flush();
            break;
        }
        flush();
        $this->check('flush');
    }

    private function do_finish(): void
    {
        svc_finish_request();
        // The buffers are closed; from now on output is discarded.
        $this->texts = array_fill(0, max(1, ob_get_level()), null);
        $this->own['level'][0] = static fn () => true;
        $this->check('finish');
    }

    private function do_limit(): void
    {
        set_time_limit(1);
        for (;;) {
        }
    }

    private function do_limit_sleep(): void
    {
        set_time_limit(1);
        Svc\sleep(30);
    }

    private function do_shell(): void
    {
        putenv("CHAOS_SHELL=$this->id");
        $text = trim((string) shell_exec('exec 2>/dev/null; echo $CHAOS_SHELL; pwd; umask'));
        $this->own['CHAOS_SHELL'] = [static fn () => getenv('CHAOS_SHELL'), $this->id];
        $expected = sprintf("%s\n%s\n%04o", $this->id, getcwd(), umask());
        if ($text !== $expected) {
            Baseline::report($this->id, 'has another program', $expected, $text);
        }
        $this->check('shell');
    }
}

/** Sessions in the worker's memory, with a wait in each method that PHP calls. */
final class Memory implements SessionHandlerInterface
{
    private static array $data = [];

    public function __construct(private Closure $wait) {}

    public function open(string $path, string $name): bool { Fault::here(); ($this->wait)('open'); return true; }
    public function close(): bool { Fault::here(); return true; }
    public function read(string $id): string|false { Fault::here(); ($this->wait)('read'); return ''; }
    public function write(string $id, string $data): bool { Fault::here(); Svc\sleep(0.0005); return true; }
    public function destroy(string $id): bool { Fault::here(); Svc\sleep(0.0005); return true; }
    public function gc(int $age): int|false { Fault::here(); return 0; }
}

/** A stream with its request's name; the program continues inside it. */
final class Wrapper
{
    public $context;
    private string $text = '';

    public function stream_open(string $path, string $mode, int $options, ?string &$opened): bool
    {
        $mine = current(stream_context_get_options($this->context));
        $this->text = $mine['text'];
        $mine['run']();
        return true;
    }

    public function stream_read(int $size): string
    {
        Fault::here();
        Svc\sleep(0.0005);
        [$text, $this->text] = [$this->text, ''];
        return $text;
    }

    public function stream_eof(): bool { return $this->text === ''; }
    public function stream_stat(): array { Fault::here(); return []; }
    public function stream_close(): void { Fault::here(); Svc\sleep(0.0); }
}

/** Reverses the data that passes through; the program continues inside it. */
final class Filter extends php_user_filter
{
    public function onCreate(): bool { Fault::here(); return true; }
    public function onClose(): void { Fault::here(); }

    public function filter($in, $out, &$consumed, bool $closing): int
    {
        ($this->params)();
        while ($bucket = stream_bucket_make_writeable($in)) {
            $bucket->data = strrev($bucket->data);
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}
