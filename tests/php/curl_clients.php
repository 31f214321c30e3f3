<?php

// Two clients on one multi handle that all requests share, with the calls of popular clients: a handler with promises that
// waits until all of its easy handles are done, and a pool that reads responses one by one.

final class Promised
{
    public string $state = 'pending';
    public mixed $value = null;

    public function __construct(private PromisingClient $client, private int $id) { }

    public function settle(string $state, mixed $value): void
    {
        $this->state = $state;
        $this->value = $value;
    }

    public function wait(): mixed
    {
        $this->client->execute();
        return $this->state === 'fulfilled' ? $this->value : throw new RuntimeException((string) $this->value);
    }

    public function cancel(): bool
    {
        return $this->client->cancel($this->id);
    }
}

final class PromisingClient
{
    private CurlMultiHandle $multi;
    private int $active = 0;
    private array $handles = [];
    private array $delays = [];

    public function __construct()
    {
        $this->multi = curl_multi_init();
    }

    public function send(string $url, int $delay = 0): Promised
    {
        $curl = curl_init($url);
        // Like a real one, it has a callback that refers to the waiting entry.
        $entry = (object) ['curl' => $curl, 'body' => '', 'promised' => null];
        curl_setopt($curl, CURLOPT_WRITEFUNCTION, function ($curl, string $part) use ($entry): int {
            $entry->body .= $part;
            return strlen($part);
        });
        $id = (int) spl_object_id($curl);
        $entry->promised = new Promised($this, $id);
        $this->handles[$id] = $entry;
        if ($delay > 0) {
            $this->delays[$id] = hrtime(true) + $delay * 1_000_000;
        } else {
            curl_multi_add_handle($this->multi, $curl);
        }
        return $entry->promised;
    }

    public function cancel(int $id): bool
    {
        if (!isset($this->handles[$id])) {
            return false;
        }
        $curl = $this->handles[$id]->curl;
        unset($this->handles[$id], $this->delays[$id]);
        curl_multi_remove_handle($this->multi, $curl);
        return true;
    }

    public function tick(float $timeout = 1): void
    {
        foreach ($this->delays as $id => $due) {
            if (hrtime(true) >= $due) {
                unset($this->delays[$id]);
                curl_multi_add_handle($this->multi, $this->handles[$id]->curl);
            }
        }
        if ($this->active && curl_multi_select($this->multi, $timeout) === -1) {
            usleep(250);
        }
        while (curl_multi_exec($this->multi, $this->active) === CURLM_CALL_MULTI_PERFORM) {
            curl_multi_select($this->multi, $timeout);
        }
        $this->read();
    }

    public function execute(): void
    {
        while ($this->handles) {
            if (!$this->active && $this->delays) {
                usleep(max(0, intdiv(min($this->delays) - hrtime(true), 1000)));
            }
            $this->tick();
        }
    }

    /** Transfers without looking at messages. */
    public function run(): void
    {
        do {
            curl_multi_exec($this->multi, $running);
        } while ($running > 0 && curl_multi_select($this->multi, 1) >= 0);
    }

    public function count(): int
    {
        return count($this->handles);
    }

    private function read(): void
    {
        while ($done = curl_multi_info_read($this->multi)) {
            if ($done['msg'] !== CURLMSG_DONE) {
                continue;
            }
            $id = (int) spl_object_id($done['handle']);
            curl_multi_remove_handle($this->multi, $done['handle']);
            if (!isset($this->handles[$id])) {
                continue;
            }
            $entry = $this->handles[$id];
            unset($this->handles[$id], $this->delays[$id]);
            $done['result'] === CURLE_OK
                ? $entry->promised->settle('fulfilled', $entry->body)
                : $entry->promised->settle('rejected', "cURL error {$done['result']}: " . curl_error($done['handle']));
        }
    }
}

final class PooledClient
{
    public CurlMultiHandle $multi;
    public array $open = [];
    public array $activity = [];
    public bool $performing = false;

    public function __construct()
    {
        $this->multi = curl_multi_init();
        curl_multi_setopt($this->multi, CURLMOPT_MAXCONNECTS, 8);
    }

    public function request(string $url): PooledResponse
    {
        return new PooledResponse($this, $url);
    }

    public function perform(): void
    {
        $this->performing = true;
        try {
            while (($error = curl_multi_exec($this->multi, $active)) === CURLM_CALL_MULTI_PERFORM) {
            }
            if ($error !== CURLM_OK) {
                throw new RuntimeException(curl_multi_strerror($error));
            }
            while ($done = curl_multi_info_read($this->multi)) {
                if ($done['msg'] === CURLMSG_DONE) {
                    $this->activity[spl_object_id($done['handle'])][] = $done['result'];
                }
            }
        } finally {
            $this->performing = false;
        }
    }
}

final class PooledResponse
{
    private CurlHandle $curl;
    private string $body = '';

    public function __construct(private PooledClient $client, string $url)
    {
        $this->curl = curl_init($url);
        curl_setopt($this->curl, CURLOPT_WRITEFUNCTION, function ($curl, string $part): int {
            $this->body .= $part;
            return strlen($part);
        });
        $client->open[spl_object_id($this->curl)] = $this->curl;
        curl_multi_add_handle($client->multi, $this->curl);
    }

    public function content(float $timeout = 30): string
    {
        $id = spl_object_id($this->curl);
        $end = microtime(true) + $timeout;
        while (true) {
            $this->client->perform();
            foreach ($this->client->activity[$id] ?? [] as $result) {
                $this->close();
                return $result === CURLE_OK ? $this->body : throw new RuntimeException(curl_strerror($result));
            }
            if (microtime(true) > $end) {
                throw new RuntimeException('Idle timeout reached');
            }
            curl_multi_select($this->client->multi, 0.1);
        }
    }

    private function close(): void
    {
        $id = spl_object_id($this->curl);
        unset($this->client->open[$id], $this->client->activity[$id]);
        curl_multi_remove_handle($this->client->multi, $this->curl);
    }
}
