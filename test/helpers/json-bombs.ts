/** What an answer has at its list: few bytes that cost much. */
const MIB = 1024 * 1024;

function filled(part: string, bytes: number): string {
  return part.repeat(Math.floor(bytes / part.length));
}

/**
 * Bodies of JSON that cost far more than their bytes, and the bound that ends each. `list` puts the
 * items where the protocol has its list.
 */
export function jsonBombs(
  list: (items: string) => string,
  mib = 3,
): Record<string, { body: Buffer; bound: RegExp }> {
  const bytes = mib * MIB;
  const one = (body: string | Buffer, bound: RegExp) => ({ body: Buffer.from(body), bound });
  return {
    numbers: one(list(`${filled('1,', bytes)}1`), /numbers/),
    'many small': one(list(`${filled('{},', bytes)}{}`), /values/),
    'many lists': one(list(`${filled('[],', bytes)}[]`), /values/),
    'numbers as text': one(list(`${filled('"1",', bytes)}"1"`), /values/),
    nothing: one(list(`${filled('null,', bytes)}null`), /values/),
    deep: one(list(filled('[', bytes)), /levels/),
    'deep objects': one(list(filled('{"a":', bytes)), /levels/),
    'many keys': one(
      `{${Array.from({ length: bytes / 12 }, (_, at) => `"k${at}":1`).join(',')}}`,
      /values/,
    ),
    'one key again and again': one(`{${filled('"data":1,', bytes)}"data":[]}`, /values/),
    'a wide text': one(list(`{"a":[${filled('true,', bytes)}1]}`), /values/),
    'one number': one(list('1'.repeat(bytes)), /cannot be read|another form/),
    'no UTF-8': one(Buffer.alloc(bytes, 0xff), /no list|no JSON/),
  };
}
