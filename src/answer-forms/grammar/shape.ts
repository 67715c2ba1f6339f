/**
 * The values that JSON may have, without the keywords of JSON schema. `schema.ts` reads a schema
 * into it, and `write.ts` writes the grammar of it.
 */
export type Shape =
  /** Any value. */
  | { readonly kind: 'any' }
  /** No value: this way cannot be taken. */
  | { readonly kind: 'never' }
  /** A text, number or other value without parts. `rule` is its text in the grammar. */
  | { readonly kind: 'terminal'; readonly type: SimpleType; readonly rule: string }
  /** One of these values, each as its JSON text. */
  | { readonly kind: 'values'; readonly texts: readonly string[] }
  | { readonly kind: 'reference'; readonly to: string }
  | { readonly kind: 'ways'; readonly ways: readonly Shape[] }
  | ObjectShape
  | ArrayShape;

export type SimpleType = 'string' | 'number' | 'integer' | 'boolean' | 'null';

export interface ObjectShape {
  readonly kind: 'object';
  /** In the order in which the model writes them. */
  readonly properties: readonly Property[];
  /** The value of each further property. Null: none is allowed. */
  readonly others: Shape | null;
  /** The rule of the names of further properties. Absent: any text. */
  readonly nameRule?: string;
  /** Each object has at least one property. */
  readonly isFilled?: boolean;
}

export interface Property {
  readonly name: string;
  readonly shape: Shape;
  readonly isRequired: boolean;
}

export interface ArrayShape {
  readonly kind: 'array';
  readonly first: readonly Shape[];
  /** Each item after the first ones. */
  readonly rest: Shape;
  readonly least: number;
  /** Infinity: any number. */
  readonly most: number;
}

export const ANY: Shape = { kind: 'any' };
export const NEVER: Shape = { kind: 'never' };

/** Shapes that other shapes refer to, by their place in the schema. */
export type NamedShapes = ReadonlyMap<string, Shape>;

/**
 * Which shapes have a value that ends. A list whose next element is required in each element has
 * none.
 */
export function findEnding(named: NamedShapes): (shape: Shape) => boolean {
  const ending = new Set<string>();
  const ends = (shape: Shape): boolean => {
    switch (shape.kind) {
      case 'never':
        return false;
      case 'values':
        return shape.texts.length > 0;
      case 'reference':
        return ending.has(shape.to);
      case 'ways':
        return shape.ways.some(ends);
      case 'object': {
        const { properties, others, isFilled = false } = shape;
        const canFill = () =>
          (others !== null && ends(others)) || properties.some((property) => ends(property.shape));
        return (
          properties.every((property) => !property.isRequired || ends(property.shape)) &&
          (!isFilled || canFill())
        );
      }
      case 'array':
        return mostItems(shape, ends) >= shape.least;
      default:
        return true;
    }
  };
  for (let before = -1; before < ending.size; ) {
    before = ending.size;
    for (const [name, shape] of named) if (ends(shape)) ending.add(name);
  }
  return ends;
}

/** How many items a list can have: it stops before one without a value. */
export function mostItems(
  { first, rest, most }: ArrayShape,
  ends: (shape: Shape) => boolean,
): number {
  const stop = first.findIndex((shape) => !ends(shape));
  if (stop >= 0) return Math.min(stop, most);
  return ends(rest) ? most : Math.min(first.length, most);
}
