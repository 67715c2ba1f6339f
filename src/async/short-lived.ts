/**
 * A map for entries that come and go all the time, such as the runs in progress.
 *
 * 1. It is an object in dictionary mode. A `Map` that is full gets a new table, and V8 keeps a
 *    pointer to it in the old one. In the old generation, a dead table so keeps each later one
 *    alive, with all that was in it. Each run would survive the young collections.
 * 2. Its order is that of insertion. No key may be a number.
 */
export class ShortLived<K extends string, V> {
  size = 0;
  private entries: Record<string, V> = Object.create(null);

  get(key: K): V | undefined {
    return this.entries[key];
  }

  has(key: K): boolean {
    return key in this.entries;
  }

  set(key: K, value: V): void {
    if (!(key in this.entries)) this.size += 1;
    this.entries[key] = value;
  }

  delete(key: K): boolean {
    if (!(key in this.entries)) return false;
    delete this.entries[key];
    this.size -= 1;
    return true;
  }

  /** As they are now. */
  keys(): K[] {
    return Object.keys(this.entries) as K[];
  }

  values(): V[] {
    return Object.values(this.entries);
  }
}
