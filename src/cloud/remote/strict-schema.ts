/**
 * Whether OpenAI accepts the schema as a strict one: each object lists all its properties as
 * required and allows no further ones. Only then can the answer be forced into it.
 */
export function isStrict(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrict);
  if (typeof schema !== 'object' || schema === null) return true;
  const { properties, required, additionalProperties } = schema as Record<string, unknown>;
  if (typeof properties === 'object' && properties !== null) {
    const needed: unknown[] = Array.isArray(required) ? required : [];
    const isClosed = additionalProperties === false;
    if (!isClosed || !Object.keys(properties).every((name) => needed.includes(name))) return false;
  }
  return Object.values(schema).every(isStrict);
}
