'use strict';
(() => {
// How often to ask, how long to wait for an answer, and how many workers are listed.
const PERIOD_MS = 1000, PATIENCE_MS = 4000, ROWS_MAX = 200;

const at = (id) => document.getElementById(id);
let last = null, lastAt = null, failedSince = null, timer = 0, paused = false;

// Texts. A name without a text is shown as in /status.
const CONDITIONS = {
  starting: ['warn', 'Starting', 'The main port does not serve yet.'],
  draining: ['warn', 'Shutting down', 'The server is shutting down: it finishes accepted requests, then exits.'],
  no_workers: ['bad', 'No workers', 'No PHP worker is running: requests for scripts are answered with 500.'],
  wedged: ['bad', 'Pool wedged', 'Workers are idle, requests wait, and nothing has been finished for a minute.'],
  wedge_suspected: ['warn', 'Pool may be wedged', 'Workers are idle, requests wait, and nothing is being finished.'],
  plugin_failed: ['bad', 'Plugin failed', ''],
  accept_stalled: ['bad', 'No connection left', 'All MAX_CONNECTIONS are taken: new clients wait and get no answer.'],
  shedding: ['bad', 'Overload', 'Requests are refused for overload (529).'],
  certificate_expired: ['bad', 'Certificate expired', 'Browsers refuse it.'],
  disk_full: ['bad', 'Disk full', ''],
  failing: ['bad', 'Requests fail', ''],
  boot_failed: ['bad', 'Deployment failed', 'The new code does not boot.'],
  stuck: ['warn', 'Worker stuck', ''],
  opcache_restart_delayed: ['warn', 'OPcache restart delayed', 'Scripts are compiled each time until the old ones have ended.'],
  export_failed: ['warn', 'Exports fail', 'The collector of OpenTelemetry is not reachable, or refuses what it gets.'],
  reload_failed: ['warn', 'Reload failed', 'The previous state remains in effect.'],
  restart_required: ['warn', 'Restart required', 'An ini file of PHP has changed since the start.'],
  certificate_expires: ['warn', 'Certificate near its end', ''],
};
const KINDS = {
  accept_failed: 'Connections not accepted', boot_failed: 'Workers do not boot', certificate: 'Certificate',
  descriptors: 'No descriptors left', drain: 'Shutdown', export_failed: 'Exports fail',
  opcache_restart: 'OPcache restart delayed', plugin: 'Plugin', reload: 'Reload', rolling_restart: 'Rolling restart',
  shedding: 'Overload', spans_dropped: 'Spans dropped', spool: 'Temporary files', stuck: 'Stuck requests',
  wedge: 'Wedged pool', worker_lost: 'Worker lost',
};
const LEVELS = { stuck: 'bad', booting: 'warn', leaving: 'warn', answered: 'warn' };
const SEVERITY = ['stuck', 'booting', 'leaving', 'answered', 'busy', 'idle'];
const ENDINGS = ['error', 'uncaught', 'parse', 'compile_error', 'core_error', 'user_error', 'recoverable_error'];

// Numbers as text.
const NONE = '–';
const isNone = (value) => value === null || value === undefined;
const count = (n) => isNone(n) ? NONE : n.toLocaleString('en');
const perSecond = (n) => isNone(n) ? NONE : count(n < 10 ? Math.round(n * 10) / 10 : Math.round(n)) + '/s';
const percent = (part, all) => all ? `${Math.round(1000 * part / all) / 10} %` : NONE;
function span(us) {
  if (isNone(us)) return NONE;
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${Number((us / 1000).toPrecision(2))} ms`;
  return age(us / 1e6);
}
function age(seconds) {
  if (isNone(seconds)) return NONE;
  if (seconds < 60) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (hours < 1) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return days < 1 ? `${hours} h ${minutes % 60} min` : `${days} d ${hours % 24} h`;
}
function size(bytes) {
  if (isNone(bytes)) return NONE;
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
const place = (one) => one.file ? `${one.file}${one.line ? `:${one.line}` : ''}` : NONE;

// Unchanged text is left alone, so that screen readers do not repeat it and selections stay.
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function put(id, text) { set(at(id), text); }
function level(element, value) {
  if (element.dataset.level !== (value || '')) element.dataset.level = value || '';
}
// On a narrow screen, each row is a block of labelled values: then only the roles say that it is a table.
function fill(body, rows) {
  const labels = [...body.parentElement.tHead.rows[0].cells].map((cell) => cell.textContent);
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach(({ cells, level: value, state }, index) => {
    let row = body.rows[index];
    if (!row) {
      row = body.insertRow();
      row.setAttribute('role', 'row');
    }
    level(row, value);
    if (state) row.dataset.state = state;
    cells.forEach((text, column) => {
      let cell = row.cells[column];
      if (!cell) {
        cell = document.createElement(column ? 'td' : 'th');
        cell.setAttribute('role', column ? 'cell' : 'rowheader');
        if (column) cell.dataset.label = labels[column]; else cell.scope = 'row';
        row.append(cell);
      }
      cell.className = text.length < 15 ? 'brief' : '';
      cell.toggleAttribute('data-empty', text === NONE);
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
const minutes = (trend) => trend.points_max * trend.step_seconds / 60;
// Draws the series of the trend, the latest value at the right; returns the largest value.
function draw(id, trend, ...series) {
  const svg = at(id), width = trend.points_max - 1;
  const top = Math.max(0, ...series.flat()), scale = top || 1;
  svg.setAttribute('viewBox', `0 0 ${width} 20`);
  svg.setAttribute('preserveAspectRatio', 'none');
  series.forEach((values, index) => {
    const first = width + 1 - values.length;
    const points = values.map((y, x) => `${first + x},${(19 - 18 * y / scale).toFixed(2)}`);
    svg.children[index].setAttribute('points', points.join(' '));
  });
  return top;
}
function tile(id, figure, more, trend, unit, ...series) {
  put(id, figure);
  put(`${id}-more`, more);
  put(`${id}-scale`, `0 to ${unit(draw(`${id}-line`, trend, ...series))}, ${minutes(trend)} min`);
}

const busiest = (s) => [...s.workers, ...(s.tasks ? s.tasks.workers : [])]
  .filter((one) => !isNone(one.request_age_seconds)).sort((a, b) => b.request_age_seconds - a.request_age_seconds);
const request = (worker) => worker.path ? `${worker.method} ${worker.path}` : isNone(worker.task) ? 'code outside of a request' : `task ${worker.task}`;
const shown = (error) => `${error.message.replace(` in ${place(error)}`, '')} (${place(error)}, ${count(error.count)} times, last ${clock(error.last_at)})`;
const lastError = (s, isMeant) => {
  const error = s.php_errors && s.php_errors.last.find(isMeant);
  return error ? `Last error of PHP: ${shown(error)}.` : '';
};
// Errors are known where PHP runs in this process.
const none = (s) => s.php_errors || !s.pool ? 'none' : 'in the log';
const left = (iso, s) => (new Date(iso) - new Date(s.time)) / 1000;

// Details of conditions, from the rest of the report.
const DETAILS = {
  shedding: (s) => {
    const longest = busiest(s)[0], now = s.refusals.overload_per_second;
    const rate = now === 0 ? 'None in the last seconds; the condition ends after a minute without any.' :
      `${perSecond(now)} refused, ${perSecond(s.requests.served_per_second)} served.`;
    const busy = s.pool ? ` ${count(s.pool.busy)} of ${count(s.pool.current)} workers are busy` : '';
    return `${rate}${busy}${busy && longest ? `, the longest for ${age(longest.request_age_seconds)}: ${request(longest)}` : ''}${busy && '.'}`;
  },
  boot_failed: (s) => {
    const boot = s.boot_failure, episode = s.episodes.find((one) => one.kind === 'boot_failed' && !one.ended_at);
    if (!boot) return episode ? `Since ${clock(episode.began_at)}: ${episode.detail}.` : '';
    const where = boot.file ? ` in ${boot.file} on line ${boot.line}` : '';
    return `Since ${clock(boot.since)}, ${count(boot.attempts)} ${boot.attempts === 1 ? 'attempt' : 'attempts'}: ${boot.message}${where}. Workers that have booted keep serving the former code: do not restart.`;
  },
  stuck: (s) => busiest(s).filter((one) => one.state === 'stuck').slice(0, 3)
    .map((one) => `${isNone(one.task) ? 'Worker' : 'Task thread'} ${one.id} has run ${request(one)} for ${age(one.request_age_seconds)}${one.request_id ? ` (${one.request_id})` : ''}.`).join(' '),
  failing: (s) => `${percent(s.requests.failed_per_second, s.requests.served_per_second)} of the answers in the last ${Math.round(s.window_seconds)} seconds are 5xx. ` +
    (lastError(s, (one) => ENDINGS.includes(one.level)) || lastError(s, () => true) || (s.php_errors ? 'PHP raised no error: see the log of the application.' : 'Errors of PHP are in the log.')),
  disk_full: (s) => {
    const full = (text) => /No space left on device|out of free disk space/.test(text);
    const spool = s.episodes.find((one) => one.kind === 'spool' && full(one.detail));
    return spool ? `Temporary files of svc: ${spool.detail}.` : lastError(s, (one) => full(one.message));
  },
  reload_failed: (s) => s.reload.error ? `${s.reload.error}.` : '',
  plugin_failed: (s) => Object.entries(s.plugins).filter(([, health]) => health === 'failed').map(([name]) => name).join(', '),
  certificate_expires: (s) => `The first one expires in ${age(left(s.certificates.first_expiry, s))}, on ${new Date(s.certificates.first_expiry).toLocaleString([], HOURS)}. Renew it, then svc reload.`,
  certificate_expired: (s) => `Since ${new Date(s.certificates.first_expiry).toLocaleString([], HOURS)}. Renew it, then svc reload.`,
};

// Without persistent workers, code is not what fails.
function condition(name, s) {
  if (name !== 'boot_failed' || s.boot_failure) return CONDITIONS[name] || ['warn', name, ''];
  return ['bad', 'Workers do not boot', s.executor === 'fastcgi' ? 'PHP does not start, or is not reachable.' : ''];
}

function showState(status) {
  const known = status.conditions.map((name) => {
    const [rank, title, text] = condition(name, status);
    const details = DETAILS[name] ? DETAILS[name](status) : '';
    return { rank, title, text: [text, details].filter(Boolean).join(' ') };
  });
  const worst = known.some(({ rank }) => rank === 'bad') ? 'bad' : known.length ? 'warn' : 'good';
  if (!known.length) known.push({ rank: 'good', title: 'Serving.', text: 'Nothing is out of the ordinary.' });
  const state = at('state');
  level(state, worst);
  let ul = state.firstElementChild;
  if (ul.tagName !== 'UL') {
    ul = document.createElement('ul');
    state.replaceChildren(ul);
  }
  while (ul.children.length > known.length) ul.lastElementChild.remove();
  known.forEach(({ rank, title, text }, index) => {
    let item = ul.children[index];
    if (!item) {
      item = ul.appendChild(document.createElement('li'));
      item.append(document.createElement('strong'), ' ', document.createElement('span'));
    }
    level(item, rank);
    set(item.children[0], title);
    set(item.children[1], text);
  });
  document.title = status.conditions.length ? `svc: ${status.conditions.join(', ')}` : 'svc: serving';
}

function showTiles(s) {
  const trend = s.trend, served = s.latency.served, wait = s.latency.queue_wait;
  const quantile = (of, name) => of && of.count ? span(of[name]) : NONE;
  put('trend-span', `${minutes(trend)} minutes`);
  tile('served', perSecond(s.requests.served_per_second), `${count(s.requests.pending)} pending`,
    trend, perSecond, trend.served_per_second);
  tile('refused', perSecond(s.refusals.per_second),
    s.budget ? `wait budget ${span(s.budget.wait_us)} of ${span(s.budget.ceiling_us)}` : '', trend, perSecond, trend.refused_per_second);
  tile('latency', quantile(served, 'p99_us'), `p50 ${quantile(served, 'p50_us')} (dashed); wait for a worker p99 ${quantile(wait, 'p99_us')}`,
    trend, span, trend.p99_us, trend.p50_us);
  tile('failed', perSecond(s.requests.failed_per_second), `${count(s.requests.dropped)} lost with their worker since the start`,
    trend, perSecond, trend.failed_per_second);
  const pool = s.pool;
  tile('busy', pool ? `${count(pool.busy)} of ${count(pool.current)}` : 'no PHP',
    pool ? `${count(pool.idle)} idle, ${count(pool.lingering)} lingering, at most ${count(pool.max)}` : '', trend, count, trend.busy_workers);
  tile('queue', s.queue ? count(s.queue.depth + s.queue.waiting) : NONE,
    s.queue ? `${count(s.queue.depth)} of ${count(s.queue.capacity)} queued, ${count(s.queue.waiting)} wait for a place` : '', trend, count, trend.waiting);
  tile('connections', `${count(s.connections.open)} of ${count(s.connections.max)}`,
    `${count(s.connections.accept_stalls)} had to wait for a place`, trend, count, trend.connections);
}

function showTables(s) {
  const errors = s.php_errors ? s.php_errors.last : [];
  fill(at('error-rows'), errors.length ? errors.map((one) => ({
    cells: [one.level.replaceAll('_', ' '), clock(one.last_at), count(one.count), place(one), one.message],
    level: ENDINGS.includes(one.level) ? 'bad' : '',
  })) : [{ cells: [none(s), NONE, NONE, NONE, NONE] }]);
  fill(at('episode-rows'), s.episodes.length ? s.episodes.map((one) => ({
    cells: [(KINDS[one.kind] || one.kind) + (one.subject ? ` (${one.subject})` : ''), clock(one.began_at),
      one.ended_at ? age((new Date(one.ended_at) - new Date(one.began_at)) / 1000) : 'goes on', count(one.count), one.detail || NONE],
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
    cells: [String(one.id), one.state, age(one.state_age_seconds), one.path ? request(one) : NONE, one.request_id || NONE,
      count(one.requests_in_flight), count(one.requests_handled), size(one.memory_bytes), age(one.uptime_seconds),
      Object.entries(one.stuck).filter(([, n]) => n).map(([kind, n]) => `${count(n)} ${kind}`).join(', ') || NONE],
    level: LEVELS[one.state], state: one.state,
  })));
}

function showLists(s) {
  const words = (name) => name.replaceAll('_', ' ');
  const reload = s.reload, boot = s.boot_failure;
  list('deployment-list', [['executor', s.executor || NONE], ['mode', s.pool ? s.pool.mode : NONE],
    ['reload', reload.under_way ? 'under way' : reload.successful ? 'none has failed' : 'the last one failed'],
    ['last successful reload, or start', clock(reload.succeeded_at)],
    ...(reload.error ? [['why it failed', reload.error]] : []),
    ...(s.pool && s.pool.mode === 'worker' ? [['code on disk', boot ? `does not boot: ${boot.message}` : 'boots']] : []),
    ['ini files of PHP', reload.restart_required ? 'changed: a restart is required' : 'as at the start'],
    ...(s.certificates && s.certificates.first_expiry ? [['first certificate expires', new Date(s.certificates.first_expiry).toLocaleDateString()]] : [])]);
  list('refusal-list', [...Object.entries(s.refusals.by_reason).map(([why, n]) => [words(why), count(n)]),
    ['waits that were in vain', count(s.refusals.wait_wasted)], ['over the rate limit (429)', count(s.requests.rate_limited)],
    ['blocked paths', count(s.requests.blocked)]]);
  list('request-list', [['all', count(s.requests.total)],
    ...Object.entries(s.requests.responses).map(([status, n]) => [`ended with ${status}`, count(n)]),
    ...Object.entries(s.requests.cancelled).map(([why, n]) => [`cancelled: ${words(why)}`, count(n)]),
    ['lost with their worker', count(s.requests.dropped)], ['run for clients that had left', count(s.requests.abandoned)]]);
  const raised = s.php_errors ? Object.entries(s.php_errors.by_level).filter(([, n]) => n) : [];
  at('level-section').hidden = !raised.length;
  list('level-list', raised.map(([name, n]) => [words(name), count(n)]));
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
    ['log records dropped', count(s.log.records_dropped)]]);
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
