import { isRecord } from '../../json.ts';
import type { NamedShapes, Property, Shape } from './shape.ts';

/**
 * Whether the shapes are disjoint. Then a value for one schema of `oneOf` is not valid for a second
 * one.
 */
export function areApart(
  shapes: readonly Shape[],
  schemas: readonly unknown[],
  named: NamedShapes,
): boolean {
  // Without a type, a schema also allows values that its shape does not have.
  if (!schemas.every(hasType)) return false;
  return shapes.every((one, at) =>
    shapes.every((other, index) => at === index || isApart(one, other, named, 0)),
  );
}

const TYPES = ['type', 'const', 'enum', '$ref', 'anyOf', 'oneOf', 'allOf'];
/** References are followed so far. */
const DEPTH_MAX = 8;

function hasType(schema: unknown): boolean {
  return isRecord(schema) && TYPES.some((word) => schema[word] !== undefined);
}

function isApart(one: Shape, other: Shape, named: NamedShapes, depth: number): boolean {
  if (depth > DEPTH_MAX) return false;
  const again = (some: Shape, others: Shape) => isApart(some, others, named, depth + 1);
  if (one.kind === 'never' || other.kind === 'never') return true;
  if (one.kind === 'any' || other.kind === 'any') return false;
  if (one.kind === 'reference') return again(named.get(one.to) as Shape, other);
  if (other.kind === 'reference') return again(one, named.get(other.to) as Shape);
  if (one.kind === 'ways') return one.ways.every((way) => again(way, other));
  if (other.kind === 'ways') return other.ways.every((way) => again(one, way));
  if (one.kind === 'values' && other.kind === 'values')
    return one.texts.every((text) => !other.texts.includes(text));
  if (one.kind === 'object' && other.kind === 'object') {
    const value = ({ properties }: typeof one, name: string): Property | undefined =>
      properties.find((property) => property.name === name);
    return (
      one.properties.some(({ name, shape, isRequired }) => {
        const same = value(other, name);
        return isRequired && same !== undefined && again(shape, same.shape);
      }) ||
      other.properties.some(
        ({ name, isRequired }) =>
          isRequired && one.others === null && value(one, name) === undefined,
      )
    );
  }
  const [some, others] = [typesOf(one), typesOf(other)];
  return !some.some((type) => others.includes(type));
}

/** A whole number is a number. */
function typesOf(shape: Shape): readonly string[] {
  if (shape.kind === 'terminal') return [shape.type === 'integer' ? 'number' : shape.type];
  if (shape.kind === 'values') return shape.texts.map(typeOfText);
  return [shape.kind];
}

function typeOfText(text: string): string {
  if (text.startsWith('"')) return 'string';
  if (text.startsWith('{')) return 'object';
  if (text.startsWith('[')) return 'array';
  if (text === 'null') return 'null';
  return text === 'true' || text === 'false' ? 'boolean' : 'number';
}
