/** Where a living machine stands. */
export interface Living {
  machine: string;
  state_path: string;
}

const COLOUR = '#c2185b';

/** Marks the states that something is in. */
export function markMermaid(text: string, living: readonly Living[]): string {
  const ids = pathsOf(living).map((path) => path.replaceAll('.', '_'));
  return ids.length === 0
    ? text
    : `${text.trimEnd()}\n  classDef present stroke:${COLOUR},stroke-width:4px\n  class ${ids.join(',')} present\n`;
}

/** The same in a picture, by the ids that its states have. */
export function markSvg(text: string, living: readonly Living[]): string {
  const selectors = pathsOf(living).map((path) => `[id="state:${path}"] :is(path, polygon)`);
  if (selectors.length === 0) return text;
  return text.replace(
    /(<svg[^>]*>)/,
    `$1\n<style>${selectors.join(', ')} { stroke: ${COLOUR}; stroke-width: 4 }</style>`,
  );
}

function pathsOf(living: readonly Living[]): string[] {
  return [...new Set(living.map(({ state_path }) => state_path))].sort();
}
