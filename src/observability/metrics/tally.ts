/** Numbers in the form in which Prometheus reads them. */
export interface Family {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  values: Sample[];
}

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  labels: Labels;
  value: number;
  /** The name of one line of a histogram. */
  metricName?: string;
}

/**
 * Counts since the start of the daemon, by labels. It owns its series.
 *
 * 1. There are at most `SERIES_MAX` series. Later series count as `other`.
 * 2. Counting costs no more than a look into a map.
 */
export class Counter {
  private readonly name: string;
  private readonly help: string;
  private readonly series = new Map<string, Sample>();

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  add(labels: Labels, by = 1): void {
    find(this.series, labels, (named) => ({ labels: named, value: 0 })).value += by;
  }

  family(): Family {
    const values = [...this.series.values()].map((sample) => ({ ...sample }));
    return { name: this.name, help: this.help, type: 'counter', values };
  }
}

interface Distribution {
  labels: Labels;
  /** How many values are at most the bound of each bucket and above the one before. */
  counts: number[];
  sum: number;
  count: number;
}

/** The distribution of values since the start of the daemon, by labels. Bounded as `Counter` is. */
export class Histogram {
  private readonly name: string;
  private readonly help: string;
  /** Upper bounds, smallest first. */
  private readonly buckets: readonly number[];
  private readonly series = new Map<string, Distribution>();

  constructor(name: string, help: string, buckets: readonly number[]) {
    this.name = name;
    this.help = help;
    this.buckets = buckets;
  }

  observe(labels: Labels, value: number): void {
    // A clock that was set back gives a negative time.
    const seen = Math.max(0, value);
    const found = find(this.series, labels, (named) => ({
      labels: named,
      counts: this.buckets.map(() => 0),
      sum: 0,
      count: 0,
    }));
    const bucket = this.buckets.findIndex((bound) => seen <= bound);
    if (bucket >= 0) found.counts[bucket] = (found.counts[bucket] ?? 0) + 1;
    found.sum += seen;
    found.count += 1;
  }

  family(): Family {
    const { name, help, buckets } = this;
    const values = [...this.series.values()].flatMap(({ labels, counts, sum, count }) => {
      let below = 0;
      const lines = buckets.map((bound, index): Sample => {
        below += counts[index] ?? 0;
        return bucketLine(name, labels, String(bound), below);
      });
      return [
        ...lines,
        bucketLine(name, labels, '+Inf', count),
        { labels, value: sum, metricName: `${name}_sum` },
        { labels, value: count, metricName: `${name}_count` },
      ];
    });
    return { name, help, type: 'histogram', values };
  }
}

/** A gauge: its values are read at each scrape. */
export function gauge(
  name: string,
  help: string,
  values: readonly (readonly [Labels, number | null])[],
): Family {
  const known = values.flatMap(([labels, value]) => (value === null ? [] : [{ labels, value }]));
  return { name, help, type: 'gauge', values: known.slice(0, SERIES_MAX) };
}

function bucketLine(name: string, labels: Labels, le: string, value: number): Sample {
  return { labels: { ...labels, le }, value, metricName: `${name}_bucket` };
}

function find<T>(series: Map<string, T>, labels: Labels, create: (labels: Labels) => T): T {
  // Each request counts a dozen times, and a list of the values would cost more than the rest.
  let key = '';
  for (const name in labels) key += `${labels[name]}\n`;
  const found = series.get(key);
  if (found !== undefined) return found;
  if (series.size < SERIES_MAX || key === otherKey(labels)) {
    const created = create(labels);
    series.set(key, created);
    return created;
  }
  const other = Object.fromEntries(Object.keys(labels).map((label) => [label, OTHER]));
  return find(series, other, create);
}

function otherKey(labels: Labels): string {
  return `${OTHER}\n`.repeat(Object.keys(labels).length);
}

const OTHER = 'other';
/** Series of one family. A label may have any name of a model. */
export const SERIES_MAX = 100;
