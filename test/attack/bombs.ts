import { gzipSync } from 'node:zlib';
import { SCHEMA_BOMBS } from '../helpers/schema-bombs.ts';

/**
 * Twelve answers that cost far more than their bytes, for every door through which foreign
 * content comes in. `list` puts the items where the protocol has its list.
 */
export interface Bomb {
  /** All of it; of one without an end, the part that comes again and again. */
  bytes: Buffer;
  /** Sent again and again. */
  isEndless?: true;
  /** A byte at a time, and never all. */
  isSlow?: true;
  /** A header of HTTP. Without headers the bytes come as they are. */
  encoding?: 'gzip';
}

export type List = (items: string) => string;

const MIB = 1024 * 1024;

const fill = (part: string, mib: number) => part.repeat(Math.floor((mib * MIB) / part.length));
const several = (part: string, mib: number) => `${fill(`${part},`, mib)}${part}`;

/** An object of another type in each place, so a schema with a union has an issue for each. */
const ODD = ['{"type":"image"}', '{"type":"resource","resource":1}', '{"type":"x","text":[]}'];

const makers: Readonly<Record<string, (list: List, mib: number) => Bomb>> = {
  wide: (list, mib) => {
    const keys = Array.from({ length: (mib * MIB) / 13 }, (_, at) => `"k${at}":{}`);
    return whole(list(`{${keys.join(',')}}`));
  },
  deep: (list, mib) => whole(list(fill('[', mib))),
  'many small': (list, mib) => whole(list(several('{}', mib))),
  endless: () => ({ bytes: Buffer.from(fill('{},', 0.06)), isEndless: true }),
  slow: (list) => ({ bytes: Buffer.from(list('{}')), isSlow: true }),
  'duplicate keys': (list, mib) => whole(list(`{${several('"data":[1]', mib)}}`)),
  'huge strings': (list, mib) => whole(list(`"${fill('x\\u0041', mib)}"`)),
  'numbers as text': (list, mib) => whole(list(several('"1e999"', mib))),
  unions: (list, mib) => whole(list(several(ODD.join(','), mib))),
  'towers of $ref': (list, mib) => {
    const schema = JSON.stringify(SCHEMA_BOMBS.anyOf?.schema);
    return whole(list(several(`{"name":"t","inputSchema":${schema}}`, mib / 4)));
  },
  'invalid UTF-8': (list, mib) => {
    const bytes = Buffer.alloc(mib * MIB, 0xc3);
    const [head = '', tail = ''] = list('\u0000').split('\u0000');
    return { bytes: Buffer.concat([Buffer.from(`${head}"`), bytes, Buffer.from(`"${tail}`)]) };
  },
  // About a thousand times smaller on the wire.
  compressed: (list, mib) => ({ bytes: gzipSync(list(several('1', mib * 16))), encoding: 'gzip' }),
};

function whole(text: string): Bomb {
  return { bytes: Buffer.from(text) };
}

export const BOMB_NAMES = Object.keys(makers);

export function makeBomb(name: string, list: List, mib: number): Bomb {
  const make = makers[name];
  if (make === undefined) throw new Error(`There is no bomb ${name}.`);
  return make(list, mib);
}

/** A name that is part of an address or an identifier. */
export function slugOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
}

export function bombOfSlug(slug: string): string {
  return BOMB_NAMES.find((name) => slugOf(name) === slug) ?? '';
}

/** Sends a bomb by `write`, which resolves when there is room, or throws when no one reads. */
export async function send(bomb: Bomb, write: (bytes: Buffer) => Promise<unknown>): Promise<void> {
  if (bomb.isSlow === true)
    for (const byte of bomb.bytes) {
      await write(Buffer.from([byte]));
      await new Promise((next) => setTimeout(next, SLOW_MS));
    }
  else if (bomb.isEndless === true) for (;;) await write(bomb.bytes);
  else await write(bomb.bytes);
}

const SLOW_MS = 400;
