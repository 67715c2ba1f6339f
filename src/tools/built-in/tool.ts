import { toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';

/** A tool that svc has itself, as a server lists it. */
export interface BuiltInTool {
  name: string;
  description: string;
  inputSchema: object;
  annotations: object;
  /** The text for the model. Throws Refusal, or the reason of the signal. */
  call(args: unknown, signal: AbortSignal): Promise<string>;
  /** The changes of a call, as a diff. Null: it is refused, or too long. */
  changes?(args: unknown): Promise<string | null>;
}

/** Why a call has another result. The model reads it. */
export class Refusal extends Error {}

export function builtInTool<E extends v.ObjectEntries>(
  name: string,
  does: 'reads' | 'replaces' | 'changes',
  description: string,
  entries: E,
  call: (
    args: v.InferOutput<v.StrictObjectSchema<E, undefined>>,
    signal: AbortSignal,
  ) => Promise<string>,
  changes?: (args: v.InferOutput<v.StrictObjectSchema<E, undefined>>) => Promise<string | null>,
): BuiltInTool {
  const schema = v.strictObject(entries);
  const { $schema: _, ...inputSchema } = toJsonSchema(schema);
  const readOnlyHint = does === 'reads';
  const hints = {
    readOnlyHint,
    idempotentHint: does !== 'changes',
    destructiveHint: !readOnlyHint,
  };
  return {
    name,
    description,
    inputSchema,
    annotations: hints,
    call: async (args, signal) => {
      const { success, output, issues } = v.safeParse(schema, args);
      if (success) return call(output, signal);
      throw new Refusal(`The arguments do not fit: ${issues[0].message}.`);
    },
    ...(changes === undefined
      ? {}
      : {
          changes: async (args) => {
            const { success, output } = v.safeParse(schema, args);
            return success ? changes(output).catch(() => null) : null;
          },
        }),
  };
}

export const textField = (text: string) => v.pipe(v.string(), v.description(text));
export const maySay = (text: string) => v.optional(textField(text));
export const mayCount = (text: string) =>
  v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.description(text)));
