import protobuf from 'protobufjs';

/**
 * Counts the fields of a message without decoding it. Decoded, a field of two bytes is an object of
 * some hundred.
 */

/** The types of the requests of a service, by method. */
export function requestTypes(proto: string, service: string): Record<string, protobuf.Type> {
  const root = protobuf.loadSync(proto).resolveAll();
  return Object.fromEntries(
    root
      .lookupService(service)
      .methodsArray.map(({ name, resolvedRequestType: type }) => [name, type as protobuf.Type]),
  );
}

/** False also for a malformed message, which the decoder refuses. */
export function hasMoreFields(bytes: Uint8Array, type: protobuf.Type, most: number): boolean {
  const reader = protobuf.Reader.create(bytes);
  let fields = 0;
  /** True once there are too many. */
  const count = ({ fieldsById }: protobuf.Type, end: number): boolean => {
    while (reader.pos < end) {
      const tag = reader.uint32();
      fields += 1;
      if (fields > most) return true;
      const inner = fieldsById[tag >>> 3]?.resolvedType;
      if ((tag & 7) !== LENGTH_DELIMITED || !(inner instanceof protobuf.Type)) {
        reader.skipType(tag & 7);
        continue;
      }
      const length = reader.uint32();
      if (count(inner, Math.min(end, reader.pos + length))) return true;
    }
    return false;
  };
  try {
    return count(type, bytes.length);
  } catch {
    return false;
  }
}

const LENGTH_DELIMITED = 2;
