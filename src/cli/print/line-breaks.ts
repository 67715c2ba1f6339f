/** Keeps line breaks at the end of a text until more text follows. */
export class LineBreaks {
  private kept = '';

  /** The text with the breaks before it, and without those at its end. */
  follow(text: string): string {
    const whole = this.kept + text;
    const body = whole.replace(/\n+$/, '');
    this.kept = whole.slice(body.length);
    return body;
  }

  drop(): void {
    this.kept = '';
  }
}
