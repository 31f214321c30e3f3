// Random traffic against the response cache of real servers, with a model of what RFC 9111 and the settings permit: no
// response is of another page, host, variant or user, is older than it may be, was made before a purge, or was stored
// although it must not be; the counters add up, and memory stays within its bound. One server runs scripts, one an application
// in worker mode with runtime hooks, and one php-cgi, if that is installed. Clients with HTTP/1.1 and HTTP/2 send conditions,
// ranges, sessions, credentials and directives, leave early and read slowly; others change pages, purge them, reload the
// servers, make scripts fail, and send more at once than a server can serve. Usage:
//
//	cache-traffic SVC SECONDS [FOLDER]
package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pauseMillis is how long a client pauses at most between two requests.
const pauseMillis = 120

var failures atomic.Int64

func fail(s *server, format string, values ...any) {
	count := failures.Add(1)
	if count <= 200 {
		fmt.Printf("%s %s: WRONG: %s\n", time.Now().Format("15:04:05.000"), s.name, fmt.Sprintf(format, values...))
	}
}

// counters counts by name.
type counters struct {
	mutex  sync.Mutex
	counts map[string]int
}

func (c *counters) add(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[name]++
}

func (c *counters) String() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	names := make([]string, 0, len(c.counts))
	for name := range c.counts {
		names = append(names, name)
	}
	sort.Strings(names)
	text := ""
	for _, name := range names {
		text += fmt.Sprintf("\n    %8d  %s", c.counts[name], name)
	}
	return text
}

// plain returns Cache-Status without its numbers.
func plain(status string) string {
	words := strings.Split(status, ";")
	for index, word := range words {
		if ttl, found := strings.CutPrefix(strings.TrimSpace(word), "ttl="); found {
			words[index] = " ttl"
			if strings.HasPrefix(ttl, "-") {
				words[index] = " ttl<0"
			}
		}
	}
	return strings.Join(words, ";")
}

// edit changes pages, and purges them in all ways.
func edit(s *server, binary string, seed uint64, goesOn func() bool) {
	v := newVisitor(s, seed, seed%2 == 0)
	reloads := now() + 20
	for goesOn() {
		time.Sleep(time.Duration(20+v.dice.IntN(60)) * time.Millisecond)
		page, host := v.page(), hosts[v.dice.IntN(len(hosts))]
		s.model.write(page)
		switch v.dice.IntN(8) {
		case 0, 1:
			if s.canPurge {
				for page%kinds != 5 {
					page = v.page()
				}
				v.purge("by=tag&k="+strconv.Itoa(page), host, hosts, []int{page})
			}
		case 2:
			if s.canPurge {
				v.purge("by=url&k="+strconv.Itoa(page), host, []string{host}, []int{page})
			}
		case 3:
			if s.canPurge && v.oneIn(10) {
				five := []int{}
				for _, page := range allPages {
					if page%kinds == 5 {
						five = append(five, page)
					}
				}
				v.purge("by=all-five", host, hosts, five)
			} else if s.canPurge && v.oneIn(40) {
				v.purge("by=clear", host, hosts, allPages)
			}
		case 4, 5:
			v.change(host, page)
		case 6:
			failing := []int{7, 8}[v.dice.IntN(2)] + kinds*v.dice.IntN(pages/kinds)
			s.model.setFailing(failing, true)
			time.Sleep(time.Duration(v.dice.IntN(1500)) * time.Millisecond)
			s.model.setFailing(failing, false)
		}
		if now() > reloads && seed%2 == 0 {
			s.reload(binary)
			reloads = now() + 30 + 60*v.dice.Float64()
		}
	}
}

// send sends a request that is not checked further, and returns its status.
func (v *visitor) send(method, path, host string) (int, string) {
	request, err := http.NewRequest(method, "http://"+v.server.main+path, nil)
	if err != nil {
		panic(err)
	}
	request.Host = host
	v.server.sent.Add(1)
	response, err := v.client.Do(request)
	if err != nil {
		fail(v.server, "%s %s: %v", method, path, err)
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	v.server.results.add(fmt.Sprintf("%s %d", method, response.StatusCode))
	return response.StatusCode, string(body)
}

func (v *visitor) purge(query, host string, ofHosts []string, of []int) {
	begin := now()
	status, body := v.send("GET", "/purge.php?"+query, host)
	if _, err := strconv.Atoi(body); status == 200 && err != nil {
		fail(v.server, "purge: %d %s", status, body)
	} else if status == 200 {
		v.server.model.purge(ofHosts, of, span{begin, now()})
	} else if status != 529 {
		fail(v.server, "purge: %d %s", status, body)
	}
}

// change sends an unsafe method, which invalidates the URL and those that its response names.
func (v *visitor) change(host string, page int) {
	path, of := fmt.Sprintf("/page.php?k=%d", page), []int{page}
	for _, field := range []string{"Location", "Content-Location"} {
		if v.oneIn(3) {
			other := v.page()
			path += fmt.Sprintf("&%s=%d", field, other)
			of = append(of, other)
		}
	}
	expected := 201
	if v.oneIn(6) {
		expected = 500
		path += "&status=500"
	}
	// The path of the page itself is another URL if the query has more than its number.
	if strings.Contains(path, "&") {
		of = of[1:]
	}
	begin := now()
	status, _ := v.send([]string{"POST", "PUT", "DELETE", "PATCH"}[v.dice.IntN(4)], path, host)
	if status == 201 && expected == 201 {
		v.server.model.purge([]string{host}, of, span{begin, now()})
	} else if status != expected && status != 529 {
		fail(v.server, "%s: %d", path, status)
	}
}

// burst asks for more at once than the queue holds.
func burst(s *server, seed uint64, goesOn func() bool) {
	dice := rand.New(rand.NewPCG(seed, 40))
	visitors := make([]*visitor, 60)
	for index := range visitors {
		visitors[index] = newVisitor(s, seed+uint64(index), index%2 == 0)
	}
	for goesOn() {
		time.Sleep(time.Duration(8000+dice.IntN(8000)) * time.Millisecond)
		var group sync.WaitGroup
		for _, v := range visitors {
			group.Go(func() {
				for range 4 {
					v.visit()
				}
			})
		}
		group.Wait()
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cache-traffic SVC SECONDS [FOLDER]")
		os.Exit(2)
	}
	binary := os.Args[1]
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		panic(err)
	}
	work := filepath.Join(os.TempDir(), "cache-traffic-"+strconv.Itoa(os.Getpid()))
	if len(os.Args) > 3 {
		work = os.Args[3]
	}
	fmt.Println("the servers and their logs are in", work)
	servers := []*server{
		start(binary, work, "classic"),
		start(binary, work, "worker", "WORKER_MODE_ENABLED=true", "ENTRY_FILE=worker.php", "RUNTIME_HOOKS=all"),
	}
	if program, err := exec.LookPath("php-cgi"); err == nil {
		s := start(binary, work, "fastcgi", "EXECUTOR=fastcgi", "FASTCGI_COMMAND="+program)
		s.canPurge = false // The functions are svc's.
		servers = append(servers, s)
	}
	var isOver atomic.Bool
	var group sync.WaitGroup
	for index, s := range servers {
		goesOn := func() bool { return !isOver.Load() }
		for number := range 6 {
			group.Go(func() {
				v := newVisitor(s, uint64(index*100+number), number%2 == 0)
				for goesOn() {
					v.visit()
					time.Sleep(time.Duration(v.dice.IntN(pauseMillis)) * time.Millisecond)
				}
			})
		}
		group.Go(func() { edit(s, binary, uint64(index*100+50), goesOn) })
		group.Go(func() { edit(s, binary, uint64(index*100+51), goesOn) })
		group.Go(func() { burst(s, uint64(index*1000+10000), goesOn) })
	}
	begin, first, most, bytes := time.Now(), map[string]int{}, map[string]int{}, map[string]float64{}
	reported := time.Now()
	for time.Since(begin).Seconds() < seconds {
		time.Sleep(500 * time.Millisecond)
		for _, s := range servers {
			if err := s.process.Process.Signal(syscall.Signal(0)); err != nil {
				fail(s, "the server has ended: %v", err)
			}
			values := s.metrics()
			size := values["svc_response_cache_bytes"]
			bytes[s.name] = max(bytes[s.name], size)
			if size > capacityMiB<<20 || size < 0 || values["svc_response_cache_entries"] < 0 {
				fail(s, "svc_response_cache_bytes is %.0f", size)
			}
			if first[s.name] == 0 {
				first[s.name] = s.resident()
			}
			most[s.name] = max(most[s.name], s.resident())
		}
		if time.Since(reported) > time.Minute {
			reported = time.Now()
			for _, s := range servers {
				fmt.Printf("%s %s: %d requests, %d wrong; resident %d KiB (first %d, most %d), cache %.0f bytes at most\n",
					time.Now().Format("15:04:05"), s.name, s.sent.Load(), failures.Load(), s.resident(), first[s.name], most[s.name], bytes[s.name])
			}
		}
	}
	isOver.Store(true)
	group.Wait()
	for _, s := range servers {
		checkCounters(s)
		fmt.Printf("%s: %d requests; resident %d KiB (first %d, most %d), cache %.0f bytes at most%s\n",
			s.name, s.sent.Load(), s.resident(), first[s.name], most[s.name], bytes[s.name], &s.results)
		if most[s.name]-first[s.name] > (capacityMiB*4/3+32)<<10 {
			fail(s, "%d KiB are resident, %d at first", most[s.name], first[s.name])
		}
		s.process.Process.Signal(syscall.SIGTERM)
		if err := s.process.Wait(); err != nil {
			fail(s, "ended with %v", err)
		}
	}
	fmt.Printf("%d wrong\n", failures.Load())
	if failures.Load() > 0 {
		os.Exit(1)
	}
}

// checkCounters checks the counters of a server at rest.
func checkCounters(s *server) {
	time.Sleep(3 * time.Second) // stale-while-revalidate
	values := s.metrics()
	total, results := 0.0, 0.0
	for name, value := range values {
		if strings.HasPrefix(name, "svc_requests_total") {
			total += value
		}
		if strings.HasPrefix(name, "svc_response_cache_requests_total") {
			results += value
		}
		if strings.HasPrefix(name, "svc_response_cache") && !strings.Contains(name, "bucket") {
			fmt.Printf("    %s %.0f\n", name, value)
		}
	}
	fmt.Printf("%s: sent %d, of which %d may not have arrived; svc counts %.0f, %.0f of them at the cache\n",
		s.name, s.sent.Load(), s.unknown.Load(), total, results)
	if sent := float64(s.sent.Load()); total > sent || total < sent-float64(s.unknown.Load()) {
		fail(s, "%.0f requests of %.0f", total, sent)
	} else if results > total || results < sent-float64(s.unknown.Load()) {
		fail(s, "%.0f results of %.0f requests", results, total)
	}
}
