// @ts-check
import { FIGURE_RUNS, MEMORY_SAMPLES, USAGE_ROWS } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { drawChart } from '../parts/chart.js';
import { formatDuration, formatTime } from '../parts/clock.js';
import { byId, el, place as placeRows, say } from '../parts/dom.js';
import { byteUnit, firstTokenMs, formatBytes, formatSpeed, speedOf } from '../parts/figures.js';
import { rateOf } from '../parts/rate.js';
import { onPlace, place } from '../state/address.js';
import { onLook } from '../state/look.js';
import { model, on, snapshot } from '../state/model.js';
import { onEvent } from '../state/present.js';
import { wordsOf } from '../state/tone.js';

/**
 * The overview: the daemon in a line, four charts, and what runs used. The charts show the latest
 * runs of the history, and the memory since the page was opened.
 *
 * 1. `samples` has the latest `MEMORY_SAMPLES` of the memory, oldest first.
 * 2. `due`: a read is planned. Until it begins, no other is planned.
 * 3. `runs` and `reserved` are from the last successful requests.
 *
 * @typedef {import('../state/model.js').Run} Run
 * @typedef {import('../parts/chart.js').Point} Point
 */
export function mountFigures() {
  onPlace(({ page }) => page === 'overview' && readSoon());
  on(['connection'], readSoon);
  on(['snapshot', 'connection'], drawFacts);
  onEvent(({ type }, moved) => {
    if (moved && type.startsWith('run.')) readSoon();
  });
  onLook((report) => {
    samples.push({ at: Date.now(), value: report.memory.rss_bytes });
    if (samples.length > MEMORY_SAMPLES) samples.shift();
    drawCharts();
  });
}

/** @type {Point[]} */
const samples = [];
/** @type {readonly Run[]} */
let runs = [];
let reserved = 0;
let due = false;

function readSoon() {
  if (due || !model.connected || place().page !== 'overview') return;
  due = true;
  setTimeout(async () => {
    due = false;
    await read();
  }, 500);
}

async function read() {
  const [page, usage, loaded] = await Promise.all([
    ask(`/v1/runs?texts=short&limit=${FIGURE_RUNS}`).catch(() => null),
    ask('/v1/usage?by=model').catch(() => null),
    ask('/v1/models/loaded').catch(() => null),
  ]);
  if (page !== null) runs = page.runs;
  if (loaded !== null) reserved = loaded.reserved_bytes;
  if (usage !== null) drawUsage(usage);
  drawCharts();
}

function drawFacts() {
  const shown = snapshot();
  if (shown === null) return;
  const { status } = shown;
  /** @type {[string, string][]} */
  const rows = [
    ['state', `${status.state_path}. ${wordsOf('daemon', status.state_path)}`],
    ['since', formatTime(status.ready_since ?? status.since, { to: 'second' })],
    ['version', status.version],
    ['process', String(status.pid)],
    ['HTTP', status.addresses.http ?? 'not listening'],
    ['gRPC', status.addresses.grpc ?? 'not listening'],
    ['events', String(shown.last_seq)],
  ];
  byId('overview-facts').replaceChildren(
    ...rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))),
  );
}

function drawCharts() {
  if (place().page !== 'overview') return;
  const to = Date.now();
  const { from, isCut, points: rate, now: rateNow } = rateOf(runs, to);
  const span = `last ${Math.round((to - from) / 60_000)} min`;
  const pointsOf = (/** @type {(run: Run) => number | null} */ figure) =>
    runs.flatMap((run) => {
      const value = figure(run);
      return value === null ? [] : [{ at: Date.parse(run.created_at), value }];
    });
  const sortByTime = (/** @type {Point[]} */ points) => points.toSorted((a, b) => a.at - b.at);
  const [first, speed] = [sortByTime(pointsOf(firstTokenMs)), sortByTime(pointsOf(speedOf))];
  const lastValue = (/** @type {Point[]} */ points) => points.at(-1)?.value ?? null;
  const textOrDash = (
    /** @type {number | null} */ value,
    /** @type {(value: number) => string} */ format,
  ) => (value === null ? '–' : format(value));
  const note = isCut ? `${span}, latest ${FIGURE_RUNS} runs` : span;
  drawChart(byId('chart-rate'), {
    title: 'Runs a minute',
    kind: 'bars',
    points: rate,
    from,
    to,
    step: 60_000,
    note,
    now: rateNow,
    format: (value) => String(value),
    // A number of runs has no fraction.
    unit: () => 2,
  });
  drawChart(byId('chart-first'), {
    title: 'Time to first token',
    kind: 'line',
    points: first,
    from,
    to,
    note,
    now: textOrDash(lastValue(first), formatDuration),
    format: formatDuration,
  });
  drawChart(byId('chart-speed'), {
    title: 'Tokens a second',
    kind: 'line',
    points: speed,
    from,
    to,
    note,
    now: textOrDash(lastValue(speed), formatSpeed),
    format: (value) => String(Number(value.toFixed(1))),
  });
  const models = reserved === 0 ? '' : `, and ${formatBytes(reserved)} for models`;
  drawChart(byId('chart-memory'), {
    title: 'Memory of the daemon',
    kind: 'line',
    points: samples,
    from,
    to,
    note: `since this page was opened${models}`,
    unit: byteUnit,
    now: textOrDash(lastValue(samples), formatBytes),
    format: formatBytes,
  });
}

/** @param {import('../../contract/usage.ts').UsageRecord} usage */
function drawUsage({ groups, total, currency, budget, covers_since }) {
  const row = (/** @type {typeof groups[number]} */ group) =>
    el(
      'tr',
      { 'data-usage': group.name },
      el('th', { scope: 'row' }, group.name),
      el('td', { class: 'num' }, String(group.runs)),
      el('td', { class: 'num' }, String(group.input_tokens)),
      el('td', { class: 'num' }, String(group.output_tokens)),
      el('td', { class: 'num' }, costOf(group, currency)),
    );
  // A wrong name of a model has runs and no tokens.
  const used = groups.filter((group) => group.input_tokens + group.output_tokens > 0);
  placeRows(byId('usage-rows'), used.slice(0, USAGE_ROWS).map(row), 'usage');
  const spentText =
    budget.per_day === null
      ? `${budget.spent.toFixed(2)} ${currency} today at cloud providers, without a budget.`
      : `${budget.spent.toFixed(2)} of ${budget.per_day} ${currency} spent today.`;
  const sinceText =
    covers_since === null ? '' : ` Counted since ${formatTime(covers_since, { to: 'minute' })}.`;
  const others = groups.length - used.length;
  const leftOutText = others === 0 ? '' : ` ${others} without tokens are left out.`;
  const pricesText =
    total.cost_at_present_prices === 0
      ? ''
      : ` ${amountOf(total.cost_at_present_prices)} ${currency} of the cost is at the present prices.`;
  const text = spentText + sinceText + leftOutText + pricesText;
  say(byId('usage-note'), groups.length === 0 ? 'No run has ended yet.' : text);
}

/**
 * @param {{ cost: number, without_price: string[] }} one
 * @param {string} currency
 */
function costOf({ cost, without_price }, currency) {
  if (without_price.length > 0 && cost === 0) return 'no price';
  return cost === 0 ? '0' : `${amountOf(cost)} ${currency}`;
}

/** @param {number} cost */
function amountOf(cost) {
  return cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2);
}
