package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	hosts    = []string{"one.test", "two.test", "three.test:8443"}
	allPages = func() []int {
		list := make([]int, pages)
		for page := range list {
			list[page] = page
		}
		return list
	}()
)

// visitor sends one request after another.
type visitor struct {
	server *server
	dice   *rand.Rand
	client *http.Client
	http2  bool
	// tags has the last ETag of each URL.
	tags map[string]string
	// seen has the last Last-Modified of each URL.
	seen map[string]string
}

func newVisitor(s *server, seed uint64, http2 bool) *visitor {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &visitor{s, rand.New(rand.NewPCG(seed, 39)), client, http2, map[string]string{}, map[string]string{}}
}

func (v *visitor) oneIn(n int) bool { return v.dice.IntN(n) == 0 }

// page chooses a page: a few get half of the requests.
func (v *visitor) page() int {
	if v.oneIn(2) {
		return v.dice.IntN(2 * kinds)
	}
	return v.dice.IntN(pages)
}

// asked is a request and what was true when it was sent.
type asked struct {
	host, method                   string
	page                           int
	user, authorization, forwarded string
	color, language                string
	accepts, onlyIfCached          bool
	byteRange, ifRange             string
	noneMatch, modifiedSince       string
	aborts                         time.Duration
	slow                           bool
	sent, received, notBefore      float64
}

func (a *asked) String() string { return fmt.Sprintf("%+v", *a) }

func (v *visitor) choose() *asked {
	a := &asked{host: hosts[v.dice.IntN(len(hosts))], method: "GET", page: v.page()}
	if v.oneIn(10) {
		a.method = "HEAD"
	}
	if v.oneIn(8) {
		a.user = fmt.Sprintf("u%d", v.dice.IntN(50))
	}
	if v.oneIn(10) {
		a.authorization = fmt.Sprintf("Bearer t%d", v.dice.IntN(50))
	}
	a.color, a.language = strconv.Itoa(v.dice.IntN(3)), []string{"de", "en", "fr, de;q=0.5"}[v.dice.IntN(3)]
	a.accepts = v.oneIn(3)
	if v.oneIn(20) {
		a.forwarded = fmt.Sprintf("evil%d.test", v.dice.IntN(100))
	}
	if v.oneIn(15) {
		from := v.dice.IntN(30000)
		a.byteRange = []string{
			fmt.Sprintf("bytes=%d-%d", from, from+v.dice.IntN(3000)), fmt.Sprintf("bytes=%d-", from),
			fmt.Sprintf("bytes=-%d", 1+v.dice.IntN(3000)), "bytes=5000000-", "bytes=9-5", "bytes=0-0,10-20,100-",
		}[v.dice.IntN(6)]
		if tag := v.tags[url(a.host, a.page)]; v.oneIn(3) && tag != "" {
			a.ifRange = tag
		}
	}
	if tag := v.tags[url(a.host, a.page)]; tag != "" && v.oneIn(3) {
		a.noneMatch = []string{tag, "W/" + strings.TrimPrefix(tag, "W/"), `"other", ` + tag, `"other"`}[v.dice.IntN(4)]
	}
	if date := v.seen[url(a.host, a.page)]; date != "" && v.oneIn(3) {
		a.modifiedSince = date
	}
	if v.oneIn(50) {
		a.aborts = time.Duration(v.dice.IntN(50)) * time.Millisecond
	}
	a.slow = v.oneIn(100)
	return a
}

func (v *visitor) request(ctx context.Context, a *asked) *http.Request {
	path := fmt.Sprintf("/page.php?k=%d", a.page)
	if v.oneIn(8) {
		path += fmt.Sprintf("&utm_source=%d", v.dice.IntN(1000))
	}
	if v.oneIn(20) {
		path = strings.Replace(path, "?", fmt.Sprintf("?fbclid=%d&", v.dice.IntN(1000)), 1)
	}
	request, err := http.NewRequestWithContext(ctx, a.method, "http://"+v.server.main+path, nil)
	if err != nil {
		panic(err)
	}
	request.Host = a.host
	set := func(name, value string) {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if a.user != "" {
		set("Cookie", []string{"PHPSESSID=", "theme=dark; wordpress_logged_in_1="}[v.dice.IntN(2)]+a.user)
	} else if v.oneIn(8) {
		set("Cookie", fmt.Sprintf("theme=%d", v.dice.IntN(9)))
	}
	set("Authorization", a.authorization)
	set("X-Color", a.color)
	set("Accept-Language", a.language)
	if a.accepts {
		set("Accept-Encoding", []string{"gzip", "gzip, deflate, br;q=0", "identity;q=0.5, gzip"}[v.dice.IntN(3)])
	}
	set("X-Forwarded-Host", a.forwarded)
	set("Range", a.byteRange)
	set("If-Range", a.ifRange)
	set("If-None-Match", a.noneMatch)
	set("If-Modified-Since", a.modifiedSince)
	if v.oneIn(10) {
		directive := []string{"no-cache", "max-age=0", "no-store", "max-stale=100", "min-fresh=5", "only-if-cached"}[v.dice.IntN(6)]
		a.onlyIfCached = directive == "only-if-cached"
		set("Cache-Control", directive)
	}
	return request
}

// visit sends one request and checks its response.
func (v *visitor) visit() {
	a := v.choose()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request := v.request(ctx, a)
	v.server.sent.Add(1)
	a.sent, a.notBefore = now(), v.server.model.notBefore(a.host, a.page)
	if a.aborts > 0 {
		time.AfterFunc(a.aborts, cancel)
	}
	response, err := v.client.Do(request)
	if err != nil {
		v.broken(a, nil, err)
		return
	}
	defer response.Body.Close()
	var reader io.Reader = response.Body
	if a.slow {
		reader = slowly{reader}
	}
	body, err := io.ReadAll(reader)
	a.received = now()
	if err != nil {
		v.broken(a, response, err)
		return
	}
	if err := v.check(a, response, body); err != nil {
		if len(body) > 200 {
			body = body[:200]
		}
		fail(v.server, "%v\n  request %v\n  response %d %v\n  %q", err, a, response.StatusCode, response.Header, body)
	}
}

// slowly is the body of a client that reads slowly.
type slowly struct{ inner io.Reader }

func (s slowly) Read(into []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.inner.Read(into[:min(len(into), 4096)])
}

// broken checks that a response may have been cut short.
func (v *visitor) broken(a *asked, response *http.Response, err error) {
	a.received = now()
	if a.aborts > 0 && (errors.Is(err, context.Canceled) || response == nil) {
		v.server.unknown.Add(1)
		v.server.results.add("aborted")
		return
	}
	v.server.results.add("broken")
	v.server.unknown.Add(1)
	kind := a.page % kinds
	if kind != 12 && kind != 20 {
		fail(v.server, "broken: %v\n  request %v\n  response %v", err, a, response)
	} else if response != nil && strings.Contains(response.Header.Get("Cache-Status"), "hit") {
		fail(v.server, "a broken response was stored: %v\n  request %v\n  response %v", err, a, response)
	}
}

// described is what X-Body says.
type described struct {
	page                                   int
	host, variant, user, forwarded, serial string
	version, length                        int
	made                                   float64
}

func describe(text string) (*described, error) {
	words := strings.Split(text, "|")
	if len(words) != 9 {
		return nil, fmt.Errorf("X-Body is %q", text)
	}
	d := &described{host: words[1], variant: words[2], user: words[3], forwarded: words[4], serial: words[7]}
	d.page, _ = strconv.Atoi(words[0])
	d.version, _ = strconv.Atoi(words[5])
	d.made, _ = strconv.ParseFloat(words[6], 64)
	d.length, _ = strconv.Atoi(words[8])
	return d, nil
}

func (d *described) body(text string) []byte {
	return append([]byte(text+"\n"), bytes.Repeat([]byte{byte(97 + d.version%26)}, d.length)...)
}

// check compares a response with what its request may get.
func (v *visitor) check(a *asked, response *http.Response, body []byte) error {
	fields, status, kind := response.Header, response.StatusCode, a.page%kinds
	p, m := policies[kind], v.server.model
	cacheStatus := fields.Get("Cache-Status")
	isHit := strings.HasPrefix(cacheStatus, "svc; hit")
	replaces := strings.Contains(cacheStatus, "detail=")
	v.server.results.add(fmt.Sprintf("%d %s", status, plain(cacheStatus)))
	for _, name := range []string{"Cache-Tag", "Surrogate-Key", "SVC-Cache-Control"} {
		if fields.Get(name) != "" {
			return fmt.Errorf("%s is not removed", name)
		}
	}
	if a.method == "HEAD" && len(body) > 0 {
		return fmt.Errorf("HEAD with a body")
	}
	switch status {
	case 529:
		if cacheStatus != "" && isHit {
			return fmt.Errorf("a refusal that is a hit")
		}
		return nil
	case 500, 503:
		if isHit {
			return fmt.Errorf("an error was stored")
		}
		if !m.mayFail(a.page, a.sent, a.received) {
			return fmt.Errorf("an error of a page without one")
		}
		return nil
	case 504:
		if a.onlyIfCached {
			return nil
		}
	case 416:
		if a.byteRange == "bytes=5000000-" || strings.HasPrefix(a.byteRange, "bytes=") && !strings.Contains(a.byteRange, ",") {
			return nil
		}
	case 200, 206, 304:
	case 404, 410:
		if kind != 19 {
			return fmt.Errorf("unexpected status")
		}
	default:
		return fmt.Errorf("unexpected status")
	}
	if status == 206 && a.byteRange == "" || status == 304 && a.noneMatch == "" && a.modifiedSince == "" {
		return fmt.Errorf("unexpected status")
	}
	if cacheStatus == "" {
		return fmt.Errorf("no Cache-Status")
	}
	if a.user != "" && cacheStatus != "svc; fwd=bypass" {
		return fmt.Errorf("a request with a session did not bypass the cache")
	}
	made, err := strconv.ParseFloat(fields.Get("X-Made"), 64)
	hasMade := err == nil
	allowed := p.fresh
	switch {
	case replaces && p.strict:
		return fmt.Errorf("a stale response that must not be used")
	case replaces:
		if strings.Contains(cacheStatus, "detail=error") && !m.mayFail(a.page, a.sent, a.received) {
			return fmt.Errorf("a stale response for an error of a page without one")
		}
		allowed += max(p.ifError, staleSeconds)
	case isHit:
		allowed += p.revalidate
	}
	if strings.Contains(cacheStatus, "collapsed") {
		allowed = max(allowed, p.delay+0.5)
	}
	if p.never && isHit {
		return fmt.Errorf("a response was stored")
	}
	if isHit && hasMade {
		age, err := strconv.Atoi(fields.Get("Age"))
		if err != nil {
			return fmt.Errorf("a hit without Age")
		}
		origin := 0.0
		if kind == 22 {
			origin = 1
		}
		if float64(age) > a.received-made+origin+1.01 || float64(age) < a.sent-made+origin-1.01 {
			return fmt.Errorf("Age is %d", age)
		}
	}
	if hasMade && made+allowed < a.sent-0.002 {
		return fmt.Errorf("made %.3f s before the request, %.3f s too old", a.sent-made, a.sent-made-allowed)
	}
	if status == 304 {
		return v.checkValidation(a, fields, allowed)
	}
	text := fields.Get("X-Body")
	d, err := describe(text)
	if err != nil {
		return err
	}
	if err := v.checkIdentity(a, d, isHit); err != nil {
		return err
	}
	if !hasMade {
		return fmt.Errorf("no X-Made")
	}
	if d.made > made+1e-5 {
		return fmt.Errorf("the body is younger than the head")
	}
	if err := m.wasCurrent(a.page, d.version, made-0.001, a.received); err != nil {
		return fmt.Errorf("at the time of the head, %w", err)
	}
	if err := m.wasCurrent(a.page, d.version, d.made-0.001, d.made+60); err != nil {
		return fmt.Errorf("at the time of the body, %w", err)
	}
	if d.made < a.notBefore-0.001 {
		return fmt.Errorf("made %.3f s before a purge", a.notBefore-d.made)
	}
	if p.never || d.user != "" || kind == 24 && d.version%2 == 1 {
		if err := m.once(d.serial); err != nil {
			return err
		}
	}
	if cookie := fields.Get("Set-Cookie"); (kind == 10) != (cookie != "") || kind == 10 && cookie != "visit="+d.serial {
		return fmt.Errorf("Set-Cookie is %q", cookie)
	}
	if tag := fields.Get("ETag"); tag != "" && a.user == "" && a.authorization == "" {
		v.tags[url(a.host, a.page)] = tag
	}
	if date := fields.Get("Last-Modified"); date != "" {
		v.seen[url(a.host, a.page)] = date
	}
	return v.checkBody(a, response, d.body(text), body)
}

func (v *visitor) checkIdentity(a *asked, d *described, isHit bool) error {
	kind := a.page % kinds
	p := policies[kind]
	if d.page != a.page {
		return fmt.Errorf("page %d", d.page)
	}
	if d.host != a.host {
		return fmt.Errorf("host %s", d.host)
	}
	if kind == 4 && d.variant != a.color+"/"+a.language {
		return fmt.Errorf("variant %s", d.variant)
	}
	if a.user != "" && d.user != a.user {
		return fmt.Errorf("user %q", d.user)
	}
	if a.user == "" && d.user != "" && (p.public || d.user != a.authorization) {
		return fmt.Errorf("user %q", d.user)
	}
	if isHit && d.user != "" {
		return fmt.Errorf("a response for a user was stored")
	}
	if d.forwarded != "" && (d.forwarded != a.forwarded || isHit) {
		return fmt.Errorf("forwarded host %s", d.forwarded)
	}
	return nil
}

// checkValidation checks that the version of the tag was current when it may have been validated.
func (v *visitor) checkValidation(a *asked, fields http.Header, allowed float64) error {
	tag := strings.Trim(strings.TrimPrefix(fields.Get("ETag"), "W/"), `"`)
	words := strings.Split(tag, "-")
	if a.page%kinds == 8 {
		date, err := http.ParseTime(a.modifiedSince)
		if err != nil {
			return fmt.Errorf("no date")
		}
		return v.server.model.wasCurrent(a.page, int(date.Unix()-1500000000), a.sent-allowed, a.received)
	}
	if len(words) < 3 || !strings.Contains(a.noneMatch, words[0]+"-"+words[1]) {
		return fmt.Errorf("304 with ETag %q", fields.Get("ETag"))
	}
	if words[0] != strconv.Itoa(a.page) {
		return fmt.Errorf("304 of another page")
	}
	version, _ := strconv.Atoi(words[1])
	return v.server.model.wasCurrent(a.page, version, a.sent-allowed-0.01, a.received)
}

func (v *visitor) checkBody(a *asked, response *http.Response, whole, body []byte) error {
	if a.method == "HEAD" {
		if length := response.ContentLength; length >= 0 && response.Header.Get("Content-Encoding") == "" &&
			response.StatusCode == 200 && a.page%kinds != 20 && length != int64(len(whole)) {
			return fmt.Errorf("HEAD with Content-Length %d", length)
		}
		return nil
	}
	if response.StatusCode == 206 {
		return checkRange(a, response, whole, body)
	}
	if coding := response.Header.Get("Content-Encoding"); coding == "gzip" {
		if !a.accepts {
			return fmt.Errorf("gzip for a client that does not accept it")
		}
		if vary := strings.Join(response.Header.Values("Vary"), ","); vary != "*" && !strings.Contains(vary, "Accept-Encoding") {
			return fmt.Errorf("gzip without Vary")
		}
		reader, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(reader); err != nil {
			return err
		}
	} else if coding != "" {
		return fmt.Errorf("coding %s", coding)
	}
	if a.page%kinds == 12 && !strings.Contains(response.Header.Get("Cache-Status"), "hit") {
		return nil // A FastCGI response that an exception ended is sent as it is.
	}
	if !bytes.Equal(body, whole) {
		return fmt.Errorf("a body of %d bytes that is not the %d described", len(body), len(whole))
	}
	return nil
}

func checkRange(a *asked, response *http.Response, whole, body []byte) error {
	if response.Header.Get("Content-Encoding") != "" {
		return fmt.Errorf("a range of a coded response")
	}
	if a.ifRange != "" && a.ifRange != response.Header.Get("ETag") {
		return fmt.Errorf("a range of another version")
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "multipart/byteranges") {
		for _, part := range []string{string(whole[:1]), string(whole[10:21]), string(whole[min(100, len(whole)):])} {
			if !strings.Contains(string(body), "\r\n\r\n"+part+"\r\n--") {
				return fmt.Errorf("a part is missing")
			}
		}
		return nil
	}
	var from, to, length int
	if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &length); err != nil {
		return fmt.Errorf("Content-Range is %q", response.Header.Get("Content-Range"))
	}
	if length != len(whole) || to >= length || from > to || !bytes.Equal(body, whole[from:to+1]) {
		return fmt.Errorf("range %s of %d bytes", response.Header.Get("Content-Range"), len(whole))
	}
	return nil
}
