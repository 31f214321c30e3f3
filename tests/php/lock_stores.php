<?php

// Locks as popular libraries take them: in Redis, a key with a token and a time to live; in PostgreSQL, an advisory lock of
// the session. Both are polled with usleep().

interface LockStore
{
    public function save(string $name, string $token): bool;
    public function delete(string $name, string $token): void;
}

final class RedisStore implements LockStore
{
    private const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end';
    private const RENEW = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end';

    public function __construct(private Redis $redis) { }

    public function save(string $name, string $token): bool
    {
        if ($this->redis->set($name, $token, ['NX', 'PX' => 30000])) {
            return true;
        }
        return (bool) $this->evaluate(self::RENEW, $name, [$token, 30000]);
    }

    public function delete(string $name, string $token): void
    {
        $this->evaluate(self::RELEASE, $name, [$token]);
    }

    private function evaluate(string $script, string $name, array $arguments): mixed
    {
        $this->redis->clearLastError();
        $result = $this->redis->evalSha(sha1($script), [$name, ...$arguments], 1);
        if (str_starts_with((string) $this->redis->getLastError(), 'NOSCRIPT')) {
            $this->redis->clearLastError();
            $result = $this->redis->eval($script, [$name, ...$arguments], 1);
        }
        return $result;
    }
}

final class PgStore implements LockStore
{
    /** The held locks, by connection: a session may lock again what it holds. */
    private static ?WeakMap $held = null;

    public function __construct(private PDO $pdo)
    {
        self::$held ??= new WeakMap;
        self::$held[$pdo] ??= new ArrayObject;
    }

    public function save(string $name, string $token): bool
    {
        if ((self::$held[$this->pdo][$name] ?? $token) !== $token) {
            return false;
        }
        self::$held[$this->pdo][$name] = $token;
        $statement = $this->pdo->prepare('SELECT pg_try_advisory_lock(:key)');
        $statement->bindValue(':key', crc32($name));
        $statement->execute();
        if ($statement->fetchColumn() === true) {
            return true;
        }
        self::$held[$this->pdo]->offsetUnset($name);
        return false;
    }

    public function delete(string $name, string $token): void
    {
        if ((self::$held[$this->pdo][$name] ?? null) === $token) {
            $this->pdo->prepare('SELECT pg_advisory_unlock(?)')->execute([crc32($name)]);
            self::$held[$this->pdo]->offsetUnset($name);
        }
    }
}

final class Lock
{
    private string $token;
    private bool $is_held = false;

    public function __construct(private LockStore $store, private string $name)
    {
        $this->token = bin2hex(random_bytes(16));
    }

    public function acquire(): void
    {
        while (!$this->store->save($this->name, $this->token)) {
            usleep((100 + random_int(-10, 10)) * 100);
        }
        $this->is_held = true;
    }

    public function release(): void
    {
        $this->is_held = false;
        $this->store->delete($this->name, $this->token);
    }

    public function __destruct()
    {
        if ($this->is_held) {
            $this->release();
        }
    }
}
