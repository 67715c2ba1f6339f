/**
 * Finds the end of one JSON value in a text that arrives in pieces. It checks no syntax: the text
 * of a model may be invalid.
 */
export class JsonEnd {
  private depth = 0;
  private inside: 'nothing' | 'string' | 'escape' | 'word' | 'value' = 'nothing';

  /** Whether the value has begun. */
  get hasBegun(): boolean {
    return this.inside !== 'nothing';
  }

  /** The index after the value. Null: it continues after this piece. */
  push(text: string, from = 0): number | null {
    for (let at = from; at < text.length; at += 1) {
      const end = this.step(text[at] as string, at);
      if (end !== null) return end;
    }
    return null;
  }

  private step(letter: string, at: number): number | null {
    switch (this.inside) {
      case 'escape':
        this.inside = 'string';
        return null;
      case 'string':
        if (letter === '\\') this.inside = 'escape';
        if (letter !== '"') return null;
        this.inside = 'value';
        return this.depth === 0 ? at + 1 : null;
      case 'word':
        if (/[\w.+-]/.test(letter)) return null;
        return at;
      default:
        return this.stepOutside(letter, at);
    }
  }

  private stepOutside(letter: string, at: number): number | null {
    if (/\s/.test(letter)) return null;
    if (letter === '"') this.inside = 'string';
    else if (letter === '{' || letter === '[') {
      this.depth += 1;
      this.inside = 'value';
    } else if (this.depth === 0) {
      if (!/[\w.+-]/.test(letter)) return at;
      this.inside = 'word';
    } else if (letter === '}' || letter === ']') {
      this.depth -= 1;
      return this.depth === 0 ? at + 1 : null;
    }
    return null;
  }
}
