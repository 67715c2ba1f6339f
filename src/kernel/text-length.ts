/** About what a value takes: its texts, and something for the rest. */
export function textLength(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.values(value).reduce((sum: number, inner) => sum + textLength(inner), 64);
}
