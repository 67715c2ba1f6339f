/** The state of one machine of the daemon. */
export interface Instance {
  machine: string;
  state_path: string;
}

const COLOUR = '#c2185b';

/** Marks the current states. */
export function markMermaid(text: string, instances: readonly Instance[]): string {
  const ids = pathsOf(instances).map((path) => path.replaceAll('.', '_'));
  return ids.length === 0
    ? text
    : `${text.trimEnd()}\n  classDef present stroke:${COLOUR},stroke-width:4px\n  class ` +
        `${ids.join(',')} present\n`;
}

/** Marks the current states of an SVG, by their ids. */
export function markSvg(text: string, instances: readonly Instance[]): string {
  const selectors = pathsOf(instances).map((path) => `[id="state:${path}"] :is(path, polygon)`);
  if (selectors.length === 0) return text;
  return text.replace(
    /(<svg[^>]*>)/,
    `$1\n<style>${selectors.join(', ')} { stroke: ${COLOUR}; stroke-width: 4 }</style>`,
  );
}

function pathsOf(instances: readonly Instance[]): string[] {
  return [...new Set(instances.map(({ state_path }) => state_path))].sort();
}
