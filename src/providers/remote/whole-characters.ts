/**
 * Some servers split a surrogate pair over two events. On disk each half would be lost. Each text
 * of an answer has its own `key`, because pieces of several texts may alternate.
 */
export class WholeCharacters {
  private readonly halves = new Map<string, string>();

  push(key: string, delta: string): string {
    const text = (this.halves.get(key) ?? '') + delta;
    const half = /[\uD800-\uDBFF]$/.exec(text)?.[0] ?? '';
    if (half === '') this.halves.delete(key);
    else this.halves.set(key, half);
    return text.slice(0, text.length - half.length).toWellFormed();
  }

  /** The halves that no other half followed. */
  *end(): Generator<[key: string, text: string]> {
    for (const [key, half] of this.halves) yield [key, half.toWellFormed()];
    this.halves.clear();
  }
}
