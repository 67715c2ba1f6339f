import { isRecord } from '../../json.ts';
import { notRead } from '../remote/failure.ts';

/**
 * The vectors of an answer, apart from the rest of it. The schema of a package looks at each
 * number. Its report of a wrong number needs a hundred times as much memory as the number itself.
 * So the package gets the place of each vector instead of its numbers.
 */
export class Vectors {
  private readonly found: number[][] = [];

  /** Takes the lists of numbers out of an answer within its budget. */
  takeFrom(value: unknown): unknown {
    if (!isRecord(value)) return value;
    if (Array.isArray(value) && value.length > 0 && value.every(Number.isFinite)) {
      this.found.push(value);
      return [this.found.length - 1];
    }
    for (const [name, each] of Object.entries(value)) value[name] = this.takeFrom(each);
    return value;
  }

  /** The vector of a place, as the package returns it. Throws provider_failed. */
  at(place: readonly number[]): number[] {
    const vector = place.length === 1 ? this.found[place[0] ?? -1] : undefined;
    if (vector === undefined) throw notRead('vectors that cannot be read');
    return vector;
  }
}
