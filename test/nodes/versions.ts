/**
 * The first and the last published version of each line that `engines` promises. `engines` has the
 * form of ours: `^22.14 || >=23.6`. A line that it skips by its number has no row.
 */
export function promisedVersions(engines: string, published: readonly string[]): string[] {
  const ranges = engines.split(' || ').map((range) => {
    const [, sign, text = ''] = /^(\^|>=)([\d.]+)$/.exec(range) ?? [];
    if (sign === undefined) throw new Error(`engines: ${range} is no range that is known here`);
    return { isOneLine: sign === '^', from: numbersOf(text) };
  });
  const isPromised = (version: Numbers) =>
    ranges.some(
      ({ isOneLine, from }) =>
        compare(version, from) >= 0 && (!isOneLine || version[0] === from[0]),
    );
  const stable = published
    .filter((text) => /^\d+\.\d+\.\d+$/.test(text))
    .map(numbersOf)
    .filter(isPromised)
    .sort(compare);
  const lines = [...Map.groupBy(stable, ([line]) => line).values()];
  return lines.flatMap((line) =>
    [...new Set([line[0], line.at(-1)])].flatMap((version) => version?.join('.') ?? []),
  );
}

type Numbers = readonly [line: number, minor: number, patch: number];

function numbersOf(text: string): Numbers {
  const [line = 0, minor = 0, patch = 0] = text.split('.').map(Number);
  return [line, minor, patch];
}

function compare(one: Numbers, other: Numbers): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2];
}
