/** Times, sizes and texts for a reader. */

/** `40 ms`, `3 s`, `12 min`, `5 h`, `2 days`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (ms > 0 && seconds < 0.1) return `${Math.ceil(ms)} ms`;
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** Local date and time; any other text is returned as it is. */
export function localTime(rfc3339: string): string {
  const at = new Date(rfc3339);
  return Number.isNaN(at.getTime()) ? rfc3339 : `${date(at)} ${clock(at)}`;
}

function date(at: Date): string {
  return `${at.getFullYear()}-${digits(at.getMonth() + 1)}-${digits(at.getDate())}`;
}

function clock(at: Date): string {
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => digits(part)).join(':');
}

function digits(value: number): string {
  return String(value).padStart(2, '0');
}

export function ago(rfc3339: string): string {
  const age = Date.now() - Date.parse(rfc3339);
  return Number.isNaN(age) ? '' : `${duration(age)} ago`;
}

/** How long a run has waited for persons. */
export function waitedMs({
  waited_ms = 0,
  waits_since,
}: {
  waited_ms?: number | undefined;
  waits_since?: string | undefined;
}): number {
  return waited_ms + (waits_since === undefined ? 0 : Date.now() - Date.parse(waits_since));
}

/** How long a run worked: from its acceptance, and apart from the waits for persons. */
export function workedMs(
  run: Parameters<typeof waitedMs>[0] & { created_at: string; ended_at: string | null },
): number {
  const end = run.ended_at === null ? Date.now() : Date.parse(run.ended_at);
  return end - Date.parse(run.created_at) - waitedMs(run);
}

/** When a daemon ended. One that could not record its end is known by its last event only. */
export function endedAgo({ ending, at }: { ending: string; at: string }): string {
  return ['clean', 'failed'].includes(ending) ? ago(at) : `last event ${ago(at)}`;
}

export function bytes(count: number | null): string {
  if (count === null) return '-';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const step = count < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** step;
  const rounded = step === 0 || value >= 100 ? Math.round(value) : Math.round(value * 10) / 10;
  return `${rounded} ${units[step]}`;
}

/** Number of parameters: `1.5B`. */
export function parameters(count: number | null): string {
  if (count === null) return '-';
  if (count >= 1e9) return `${Math.round(count / 1e8) / 10}B`;
  if (count >= 1e6) return `${Math.round(count / 1e5) / 10}M`;
  return `${Math.round(count / 1000)}K`;
}

/** A place in a machine, for a list: `warm, idle`. */
export function stateText(path: string): string {
  return path.replaceAll('.', ', ');
}

/** The state of the daemon, in words for its user. */
export function daemonText(path: string): string {
  return DAEMON_DOES[path] ?? stateText(path);
}

const DAEMON_DOES: Record<string, string> = {
  'running.accepting': 'answering',
  'running.saturated': 'queue full',
  'running.disk_full': 'disk full',
  'running.disk_stalled': 'disk takes no writes',
};

/** The first line of a text, cut to a width. */
export function shortenLine(text: string, width: number): string {
  const [line = ''] = text.trimStart().split('\n', 1);
  return line.length > width || line.length < text.trim().length
    ? `${line.slice(0, width - 1)}…`
    : line;
}
