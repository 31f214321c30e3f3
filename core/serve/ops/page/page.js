'use strict';
(() => {
// How often to ask, how long to wait for an answer, and how many answers the lines show.
const PERIOD_MS = 1000, PATIENCE_MS = 4000, POINTS = 60, ROWS_MAX = 200;

const at = (id) => document.getElementById(id);
const lines = {};
let last = null, lastAt = null, failedSince = null, timer = 0, paused = false;

// Words. Whatever has no word here is shown as it is called in /status.
const CONDITIONS = {
  starting: ['warn', 'The server is starting: the main port does not serve yet.'],
  draining: ['warn', 'The server is shutting down: it ends what it has accepted, and then itself.'],
  no_workers: ['bad', 'No PHP worker is running: requests for scripts are answered with 500.'],
  wedged: ['bad', 'The pool is wedged: workers are idle, requests wait, and nothing has been finished for a minute.'],
  wedge_suspected: ['warn', 'The pool may be wedged: workers are idle, requests wait, and nothing is being finished.'],
  plugin_failed: ['bad', 'A plugin has failed.'],
  accept_stalled: ['bad', 'All connections are taken (MAX_CONNECTIONS): new clients wait and get no answer.'],
  shedding: ['bad', 'Requests are refused for overload (529).'],
  boot_failed: ['bad', 'Workers fail to boot.'],
  stuck: ['warn', 'Requests hold workers up for more than a minute.'],
  opcache_restart_delayed: ['warn', 'OPcache waits for its restart: scripts are compiled each time.'],
  export_failed: ['warn', 'Spans do not reach their collector.'],
  reload_failed: ['warn', 'The last reload failed: the former state is in effect.'],
};
const KINDS = {
  accept_failed: 'Connections not accepted', boot_failed: 'Workers do not boot', certificate: 'Certificate',
  descriptors: 'No descriptors left', drain: 'Shutdown', export_failed: 'Spans not exported',
  opcache_restart: 'OPcache restart delayed', plugin: 'Plugin', reload: 'Reload', rolling_restart: 'Rolling restart',
  shedding: 'Overload', spans_dropped: 'Spans dropped', spool: 'Temporary files', stuck: 'Stuck requests',
  wedge: 'Wedged pool', worker_lost: 'Worker lost',
};
const LEVELS = { stuck: 'bad', booting: 'warn', leaving: 'warn', answered: 'warn' };
const SEVERITY = ['stuck', 'booting', 'leaving', 'answered', 'busy', 'idle'];

// Numbers as text.
const NONE = '–';
const count = (n) => n === null || n === undefined ? NONE : n.toLocaleString('en');
const perSecond = (n) => n === null ? NONE : count(n < 10 ? Math.round(n * 10) / 10 : Math.round(n)) + '/s';
function span(us) {
  if (us === null || us === undefined) return NONE;
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${Number((us / 1000).toPrecision(2))} ms`;
  return age(us / 1e6);
}
function age(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 60) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (hours < 1) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return days < 1 ? `${hours} h ${minutes % 60} min` : `${days} d ${hours % 24} h`;
}
function size(bytes) {
  if (bytes === null || bytes === undefined) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit++; }
  return `${bytes < 10 && unit > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}
const HOURS = { hourCycle: 'h23' };
const clock = (iso) => {
  const date = new Date(iso), isOld = Date.now() - date > 864e5;
  return isOld ? date.toLocaleString([], HOURS) : date.toLocaleTimeString([], HOURS);
};

// What does not change is left alone, so that nothing is read out twice and selections stay.
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function put(id, text) { set(at(id), text); }
function level(element, value) {
  if (element.dataset.level !== (value || '')) element.dataset.level = value || '';
}
function fill(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach(({ cells, level: value }, index) => {
    const row = body.rows[index] || body.insertRow();
    level(row, value);
    cells.forEach((text, column) => {
      let cell = row.cells[column];
      if (!cell) {
        cell = document.createElement(column ? 'td' : 'th');
        if (!column) cell.scope = 'row';
        row.append(cell);
      }
      if (text.length > 30) cell.className = 'text';
      set(cell, text);
    });
  });
}
function list(id, entries) {
  const dl = at(id);
  while (dl.children.length > 2 * entries.length) dl.lastElementChild.remove();
  entries.forEach(([name, value], index) => {
    if (!dl.children[2 * index]) dl.append(document.createElement('dt'), document.createElement('dd'));
    set(dl.children[2 * index], name);
    set(dl.children[2 * index + 1], value);
  });
}
function line(id, value) {
  const points = lines[id] = lines[id] || [];
  points.push(value || 0);
  if (points.length > POINTS) points.shift();
  const top = Math.max(...points, 1), svg = at(id);
  svg.setAttribute('viewBox', `0 0 ${POINTS - 1} 20`);
  svg.setAttribute('preserveAspectRatio', 'none');
  const first = POINTS - points.length;
  const text = points.map((y, x) => `${first + x},${(19 - 18 * y / top).toFixed(2)}`).join(' ');
  svg.firstElementChild.setAttribute('points', text);
}
function tile(id, figure, more, value) {
  put(id, figure);
  put(`${id}-more`, more);
  line(`${id}-line`, value);
}

// Returns the details of a condition.
function more(name, status) {
  if (name === 'shedding' && status.refusals.overload_per_second === 0) {
    return 'None in the last seconds; the condition ends after a minute without any.';
  }
  const boot = status.boot_failure;
  if (name !== 'boot_failed' || !boot) return '';
  const place = boot.file ? ` in ${boot.file} on line ${boot.line}` : '';
  return `Since ${clock(boot.since)}, ${count(boot.attempts)} attempts: ${boot.message}${place}. Workers that have booted keep serving.`;
}

function showState(status) {
  const known = status.conditions.map((name) => {
    const [rank, text] = CONDITIONS[name] || ['warn', name];
    return [rank, [text, more(name, status)].filter(Boolean).join(' ')];
  });
  const worst = known.some(([rank]) => rank === 'bad') ? 'bad' : known.length ? 'warn' : 'good';
  const texts = known.length ? known.map(([, text]) => text) : ['Serving. Nothing is out of the ordinary.'];
  const state = at('state');
  level(state, worst);
  if (state.innerText !== texts.join('\n')) {
    const ul = document.createElement('ul');
    for (const text of texts) ul.appendChild(document.createElement('li')).textContent = text;
    const one = document.createElement('p');
    one.textContent = texts[0];
    state.replaceChildren(texts.length > 1 ? ul : one);
  }
  document.title = status.conditions.length ? `svc: ${status.conditions.join(', ')}` : 'svc: serving';
}

function showTiles(s) {
  const failing = s.requests.responses_per_second['5xx'];
  tile('rate', perSecond(s.requests.per_second), `${perSecond(failing)} end with 5xx, ${count(s.requests.pending)} pending`,
    s.requests.per_second);
  const all = s.latency.request, wait = s.latency.queue_wait;
  const quantile = (of, name) => of && of.count ? span(of[name]) : NONE;
  tile('latency', quantile(all, 'p99_us'), `median ${quantile(all, 'p50_us')}; wait for PHP ${quantile(wait, 'p50_us')}`,
    all && all.p99_us);
  const pool = s.pool;
  tile('busy', pool ? `${count(pool.busy)} of ${count(pool.current)}` : 'no PHP',
    pool ? `${count(pool.idle)} idle, ${count(pool.lingering)} lingering, at most ${count(pool.max)}` : '', pool && pool.busy);
  tile('queue', s.queue ? `${count(s.queue.depth)} of ${count(s.queue.capacity)}` : NONE,
    s.queue ? `${count(s.slots.available)} slots free, ${count(s.queue.waiting)} wait for one` : '',
    s.queue && s.queue.depth + s.queue.waiting);
  tile('refused', perSecond(s.refusals.overload_per_second),
    s.budget ? `wait budget ${span(s.budget.wait_us)} of ${span(s.budget.ceiling_us)}` : '', s.refusals.overload_per_second);
  tile('connections', `${count(s.connections.open)} of ${count(s.connections.max)}`,
    `${count(s.connections.accept_stalls)} had to wait for a place`, s.connections.open);
}

function showTables(s) {
  fill(at('episode-rows'), s.episodes.length ? s.episodes.map((one) => ({
    cells: [(KINDS[one.kind] || one.kind) + (one.subject ? ` (${one.subject})` : ''), clock(one.began_at),
      one.ended_at ? age((new Date(one.ended_at) - new Date(one.began_at)) / 1000) : 'goes on', count(one.count), one.detail],
    level: one.ended_at ? '' : 'warn',
  })) : [{ cells: ['none', NONE, NONE, NONE, NONE] }]);
  let workers = s.workers;
  if (workers.length > ROWS_MAX) {
    const rank = (one) => SEVERITY.indexOf(one.state);
    workers = [...workers].sort((a, b) => rank(a) - rank(b) || b.state_age_seconds - a.state_age_seconds).slice(0, ROWS_MAX);
  }
  const pool = s.pool, recycled = pool && Object.entries(pool.recycled).filter(([, n]) => n).map(([why, n]) => `${count(n)} ${why}`);
  put('workers-more', !pool ? 'This server runs without PHP.' :
    `${count(pool.spawned)} started so far; recycled: ${recycled.join(', ') || 'none'}.` +
    (workers.length < s.workers.length ? ` The ${ROWS_MAX} of ${count(s.workers.length)} that matter most are listed.` : ''));
  fill(at('worker-rows'), workers.map((one) => ({
    cells: [String(one.id), one.state, age(one.state_age_seconds), count(one.requests_in_flight), count(one.requests_handled),
      size(one.memory_bytes), age(one.uptime_seconds),
      Object.entries(one.stuck).filter(([, n]) => n).map(([kind, n]) => `${count(n)} ${kind}`).join(', ') || NONE],
    level: LEVELS[one.state],
  })));
}

function showLists(s) {
  const words = (name) => name.replaceAll('_', ' ');
  list('refusal-list', [...Object.entries(s.refusals.by_reason).map(([why, n]) => [words(why), count(n)]),
    ['waits that were in vain', count(s.refusals.wait_wasted)], ['over the rate limit (429)', count(s.requests.rate_limited)],
    ['blocked paths', count(s.requests.blocked)]]);
  list('request-list', [['all', count(s.requests.total)],
    ...Object.entries(s.requests.responses).map(([status, n]) => [`ended with ${status}`, count(n)]),
    ...Object.entries(s.requests.cancelled).map(([why, n]) => [`cancelled: ${words(why)}`, count(n)]),
    ['lost with their worker', count(s.requests.dropped)], ['worked on for nobody', count(s.requests.abandoned)]]);
  const op = s.caches.opcache, files = s.caches.static, pages = s.caches.responses;
  const share = (part, all) => all ? `${Math.round(100 * part / all)} % of ${count(all)}` : NONE;
  list('cache-list', [['OPcache', op ? (!op.enabled ? 'off' : op.restart_delayed ? 'waits for its restart' : 'on') : NONE],
    ...(op ? [['OPcache restarts', count(op.restarts)]] : []),
    ...(op && op.used_bytes !== null ? [
      ['OPcache memory', `${size(op.used_bytes)} of ${size(op.used_bytes + op.free_bytes + op.wasted_bytes)}`],
      ['wasted by replaced scripts', size(op.wasted_bytes)], ['scripts in OPcache', count(op.scripts)],
      ['scripts from OPcache', share(op.hits, op.hits + op.misses)]] : []),
    ['static files from memory', share(files.hits, files.hits + files.misses)],
    ['memory of static files', files.bytes_max ? `${size(files.bytes)} of ${size(files.bytes_max)}` : 'off'],
    ['responses from the cache', pages ? share(pages.hits + pages.stale, pages.hits + pages.stale + pages.misses) : 'off'],
    ...(pages ? [['stale responses', count(pages.stale)], ['memory of responses', `${size(pages.bytes)} of ${size(pages.bytes_max)}`],
      ['evicted responses', count(pages.evictions)]] : [])]);
  const memory = s.memory, process = s.process;
  list('memory-list', [['resident', size(memory.resident_bytes)], ...(memory.workers_bytes === null ? [] : [['PHP heaps of the workers', size(memory.workers_bytes)]]),
    ['replies in memory', `${size(memory.replies_bytes)} of ${size(memory.replies_bytes_max)}`],
    ['temporary files', `${size(memory.spool_bytes)} of ${size(memory.spool_bytes_max)}`],
    ['processors busy', count(process.cpus_busy)], ['threads', count(process.threads)],
    ['descriptors', `${count(process.open_fds)} of ${count(process.max_fds)}`],
    ['log records dropped', count(s.log.records_dropped)],
    ...(s.certificates && s.certificates.first_expiry ? [['first certificate expires', new Date(s.certificates.first_expiry).toLocaleDateString()]] : [])]);
  at('task-section').hidden = !s.tasks;
  if (s.tasks) {
    list('task-list', [['in flight', `${count(s.tasks.in_flight)} of ${count(s.tasks.in_flight_max)}`],
      ...['dispatched', 'completed', 'failed', 'cancelled', 'rejected', 'stranded'].map((name) => [name, count(s.tasks[name])]),
      ['threads', count(s.tasks.workers.length)]]);
  }
  const others = [...(s.tracing ? [['exports that failed', count(s.tracing.failed_exports)], ['spans lost with them', count(s.tracing.failed_spans)],
    ['spans dropped', count(s.tracing.dropped_spans)]] : []), ...Object.entries(s.plugins).map(([name, health]) => [`plugin ${name}`, health || 'loaded'])];
  at('other-section').hidden = !others.length;
  list('other-list', others);
}

function show(status) {
  put('version', status.version);
  put('about', `${status.php_version ? `PHP ${status.php_version}` : 'without PHP'}, ${status.phase} for ${age(status.uptime_seconds)}, as of ${clock(status.time)}`);
  put('window', String(Math.round(status.window_seconds || 10)));
  showState(status);
  showTiles(status);
  showTables(status);
  showLists(status);
}

function lost(why) {
  failedSince = failedSince || new Date();
  const text = [`No figures since ${(lastAt || failedSince).toLocaleTimeString([], HOURS)}: ${why}.`];
  if (last && last.phase !== 'running') text.push('The server was shutting down and has probably ended.');
  if (last) text.push('What is below is from then.');
  put('lost', text.join(' '));
  at('lost').hidden = false;
  document.body.classList.add('stale');
  document.title = 'svc: no answer';
}

async function look() {
  clearTimeout(timer);
  try {
    const answer = await fetch('status', { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!answer.ok) {
      lost(answer.status === 403 ? 'this address is not allowed to see them (INTERNAL_ALLOW_IPS)' : `the answer is ${answer.status}`);
    } else {
      last = await answer.json();
      lastAt = new Date();
      failedSince = null;
      at('lost').hidden = true;
      document.body.classList.remove('stale');
      show(last);
    }
  } catch (error) {
    lost(error.name === 'TimeoutError' ? 'the operations port does not answer in time' : 'the operations port does not answer');
  }
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(look, PERIOD_MS);
}

at('pause').addEventListener('click', () => {
  paused = !paused;
  at('pause').setAttribute('aria-pressed', String(paused));
  if (paused) clearTimeout(timer); else look();
});
document.addEventListener('visibilitychange', () => { if (!document.hidden && !paused) look(); });
look();
})();
