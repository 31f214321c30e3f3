package main

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const capacityMiB = 32

// server is one svc with its model.
type server struct {
	name          string
	process       *exec.Cmd
	main, ops     string
	pidFile       string
	model         *model
	canPurge      bool
	sent, unknown atomic.Int64 // requests, and those whose result svc may have counted or not
	results       counters
}

func freePort() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// origin is the application of the servers.
//
//go:embed *.php
var origin embed.FS

func start(binary, work, name string, settings ...string) *server {
	root := filepath.Join(work, name)
	if err := os.MkdirAll(root, 0o755); err != nil {
		panic(err)
	}
	if err := os.CopyFS(root, origin); err != nil {
		panic(err)
	}
	s := &server{name: name, main: freePort(), ops: freePort(), pidFile: filepath.Join(work, name+".pid"), canPurge: true}
	s.model = newModel(root)
	log, err := os.Create(filepath.Join(work, name+".log"))
	if err != nil {
		panic(err)
	}
	s.process = exec.Command(binary, "serve", root)
	s.process.Env = append(os.Environ(), "LISTEN_ADDR="+s.main, "INTERNAL_ADDR="+s.ops, "PID_FILE="+s.pidFile,
		"PHP_WORKERS=4", "QUEUE_CAPACITY=8", "QUEUE_MAX_WAITING=8", "QUEUE_WAIT_TIMEOUT_MS=500",
		fmt.Sprintf("RESPONSE_CACHE_BYTES=%dM", capacityMiB), "RESPONSE_CACHE_DEFAULT_TTL_MS=1000",
		fmt.Sprintf("RESPONSE_CACHE_STALE_SECONDS=%d", int(staleSeconds)))
	s.process.Env = append(s.process.Env, settings...)
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		panic(err)
	}
	for range 300 {
		if response, err := http.Get("http://" + s.ops + "/health/readiness"); err == nil {
			response.Body.Close()
			if response.StatusCode == 200 {
				return s
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	panic(name + " does not become ready: see " + log.Name())
}

// metrics returns the values of all series.
func (s *server) metrics() map[string]float64 {
	response, err := http.Get("http://" + s.ops + "/metrics")
	if err != nil {
		fail(s, "cannot be scraped: %v", err)
		return nil
	}
	defer response.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), " "); found && name != "#" {
			values[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	io.Copy(io.Discard, response.Body)
	return values
}

// resident returns the resident memory in KiB.
func (s *server) resident() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib
		}
	}
	return 0
}

// reload empties the cache.
func (s *server) reload(binary string) {
	begin := now()
	output, err := exec.Command(binary, "reload", "--pid-file", s.pidFile).CombinedOutput()
	if err != nil {
		fail(s, "reload: %v: %s", err, output)
		return
	}
	s.model.purge(hosts, allPages, span{begin, now()})
}
