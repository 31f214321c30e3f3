package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// span is the time that a change took: before start it had not happened, after end it had.
type span struct{ start, end float64 }

// model is what the pages of one server are, and which responses may still be used.
type model struct {
	root string
	// editing is held while a page is written, so that versions are written in their order.
	editing sync.Mutex

	mutex sync.Mutex
	// writes has the time at which each version of a page was written.
	writes [pages][]span
	// purged has the last purge of each URL: a response made before it may not be used for a request after it.
	purged map[string]span
	// failing has the last time during which a page failed.
	failing [pages]span
	// delivered counts the deliveries of responses that may be used once.
	delivered, before map[string]int
	turned            float64
}

func newModel(root string) *model {
	m := &model{root: root, purged: map[string]span{}, delivered: map[string]int{}, turned: now()}
	for page := range pages {
		m.write(page)
	}
	return m
}

func (m *model) write(page int) {
	m.editing.Lock()
	defer m.editing.Unlock()
	m.mutex.Lock()
	version := len(m.writes[page])
	m.writes[page] = append(m.writes[page], span{now(), 1e18})
	m.mutex.Unlock()
	path := filepath.Join(m.root, "v"+strconv.Itoa(page))
	if err := os.WriteFile(path+".new", []byte(strconv.Itoa(version)), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
	m.mutex.Lock()
	m.writes[page][version].end = now()
	m.mutex.Unlock()
}

func (m *model) setFailing(page int, fails bool) {
	path := filepath.Join(m.root, "e"+strconv.Itoa(page))
	m.mutex.Lock()
	if fails {
		m.failing[page] = span{now(), 1e18}
	}
	m.mutex.Unlock()
	if fails {
		os.WriteFile(path, nil, 0o644)
		return
	}
	os.Remove(path)
	m.mutex.Lock()
	m.failing[page].end = now()
	m.mutex.Unlock()
}

// mayFail tells whether the script of the page can have failed in a request of this time.
func (m *model) mayFail(page int, sent, received float64) bool {
	if page%kinds == 12 {
		return true
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	failing := m.failing[page]
	return failing.start != 0 && failing.start <= received && failing.end >= sent-2
}

func url(host string, page int) string { return host + "/" + strconv.Itoa(page) }

func (m *model) purge(hosts []string, of []int, done span) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, host := range hosts {
		for _, page := range of {
			if key := url(host, page); m.purged[key].start < done.start {
				m.purged[key] = done
			}
		}
	}
}

// notBefore returns the time before which no response may have been made for a request that is sent now.
func (m *model) notBefore(host string, page int) float64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.purged[url(host, page)].start
}

// wasCurrent checks that the version was that of the page at some time from earliest to latest.
func (m *model) wasCurrent(page, version int, earliest, latest float64) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	writes := m.writes[page]
	if version < 0 || version >= len(writes) {
		return fmt.Errorf("version %d was not written", version)
	}
	if writes[version].start > latest {
		return fmt.Errorf("version %d was written later", version)
	}
	if version+1 < len(writes) && writes[version+1].end < earliest {
		return fmt.Errorf("version %d had been replaced %.3f s before", version, earliest-writes[version+1].end)
	}
	return nil
}

// once checks that this is the only delivery of a response.
func (m *model) once(serial string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if now() > m.turned+120 {
		m.before, m.delivered, m.turned = m.delivered, map[string]int{}, now()
	}
	m.delivered[serial]++
	if m.delivered[serial]+m.before[serial] > 1 {
		return fmt.Errorf("was delivered before")
	}
	return nil
}
