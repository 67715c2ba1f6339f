import * as assert from 'uvu/assert';

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** The samples of a scrape. Fails where the text is not the format of Prometheus, version 0.0.4. */
export function parseMetrics(text: string): Sample[] {
  assert.ok(text.endsWith('\n'), 'the last line ends');
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  const seen = new Set<string>();
  let family = '';
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const comment = /^# (HELP|TYPE) ([a-z_]+) (.+)$/.exec(line);
    if (comment !== null) {
      const [, kind, name = '', rest = ''] = comment;
      if (kind === 'TYPE') {
        assert.match(rest, /^(counter|gauge|histogram)$/, line);
        assert.not.ok(types.has(name), `${name} is there twice`);
        types.set(name, rest);
        family = name;
      }
      continue;
    }
    const sample = readSample(line);
    const key = JSON.stringify([sample.name, Object.entries(sample.labels).sort()]);
    assert.not.ok(seen.has(key), `${line} is there twice`);
    seen.add(key);
    const base =
      types.get(family) === 'histogram'
        ? sample.name.replace(/_(bucket|sum|count)$/, '')
        : sample.name;
    assert.is(base, family, `${line} is under another family`);
    samples.push(sample);
  }
  for (const [name, type] of types) if (type === 'histogram') checkHistogram(name, samples);
  return samples;
}

function readSample(line: string): Sample {
  const [, name = '', inner = '', number = ''] =
    /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  assert.match(name, /^svc_/, line);
  const labels: Record<string, string> = {};
  let rest = inner;
  while (rest !== '') {
    const found = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/.exec(rest);
    assert.ok(found, `a label of ${line}`);
    const [whole, label = '', value = ''] = found ?? [''];
    labels[label] = value.replace(/\\(["\\n])/g, (_, c: string) => (c === 'n' ? '\n' : c));
    rest = rest.slice(whole.length);
  }
  const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number);
  assert.not.ok(Number.isNaN(value), line);
  return { name, labels, value };
}

/** Buckets rise, and the last one has all. */
function checkHistogram(name: string, samples: readonly Sample[]): void {
  const groups = new Map<string, Sample[]>();
  for (const sample of samples.filter((one) => one.name === `${name}_bucket`)) {
    const { le: _, ...labels } = sample.labels;
    const key = JSON.stringify(labels);
    groups.set(key, [...(groups.get(key) ?? []), sample]);
  }
  for (const [key, buckets] of groups) {
    const values = buckets.map(({ value }) => value);
    assert.equal(
      values,
      [...values].sort((a, b) => a - b),
      `${name}${key} rises`,
    );
    assert.is(buckets.at(-1)?.labels.le, '+Inf');
    const count = samples.find(
      (one) => one.name === `${name}_count` && JSON.stringify(one.labels) === key,
    );
    assert.is(values.at(-1), count?.value, `${name}${key}`);
  }
}

/** The one sample of this name with these labels. Undefined without one. */
export function figureOf(
  samples: readonly Sample[],
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  return samples.find(
    (sample) =>
      sample.name === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )?.value;
}
