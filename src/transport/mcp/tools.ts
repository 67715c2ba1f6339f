import { type ConversionConfig, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { check, withoutNull } from '../../contract/check.ts';
import type { EventRecord, RunRecord } from '../../contract/contract.ts';
import { fromBody } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import { type OperationName, rows } from '../../operations/operations.ts';

/** The operations of the contract that are tools of svc's own MCP server. */

/** Performs an operation for a client of MCP, in this process or over the local socket. */
export type Perform = (
  name: OperationName,
  params: Record<string, unknown>,
  reply: Reply,
) => Promise<unknown>;
export interface Reply {
  signal: AbortSignal;
  /** Takes what the operation sends before its result. */
  event(event: unknown): Promise<void>;
}

/** A tool as an MCP client sees it, and its function. */
export interface OfferedTool {
  name: string;
  description: string;
  inputSchema: { type: 'object' } & Record<string, unknown>;
  annotations: Record<string, boolean>;
  /** Resolves with the text for the model. Throws SvcError. */
  call(args: unknown, reply: Progress): Promise<string>;
}
export interface Progress {
  signal: AbortSignal;
  /** The answer has so many characters so far. */
  progress(characters: number): Promise<void>;
}

/** Without `null`: a model leaves out fields that it does not choose. */
const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  typeMode: 'input',
  errorMode: 'ignore',
  overrideSchema: ({ valibotSchema, jsonSchema }) =>
    valibotSchema.type === 'nullish'
      ? jsonSchema.anyOf?.filter((form) => typeof form === 'object').find(isNoNull)
      : undefined,
};
const isNoNull = ({ type }: { type?: unknown }) => type !== 'null';

/** The tools without their functions. They never change, and the conversion takes long. */
const OFFERED = rows.flatMap(([operation, { tool, summary = '', http = 'GET', ...row }]) => {
  if (tool === undefined) return [];
  const { name, fixed, params = row.params as v.ObjectSchema<v.ObjectEntries, undefined> } = tool;
  const schema = v.strictObject(v.omit(params, Object.keys(fixed ?? {}) as [string]).entries);
  const shown = {
    name,
    description: tool.says ?? summary,
    inputSchema: toJsonSchema(schema, CONVERSION) as OfferedTool['inputSchema'],
    annotations: http.startsWith('GET')
      ? { readOnlyHint: true, openWorldHint: false }
      : { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  };
  return { operation, schema, fixed, shown };
});

export function toolsOver(perform: Perform): OfferedTool[] {
  return OFFERED.map(({ operation, schema, fixed, shown }) => ({
    ...shown,
    call: async (args, { signal, progress }) => {
      const values = { ...withoutNull(check(schema, args ?? {})), ...fixed };
      let length = 0;
      const event = async (sent: unknown) => {
        const { type, data } = sent as Partial<EventRecord>;
        if (type !== 'run.output_appended') return;
        length += String(asRecord(data).text ?? '').length;
        await progress(length);
      };
      const result = await perform(operation, values, { signal, event });
      return operation === 'run.start' ? answerOf(result as RunRecord) : JSON.stringify(result);
    },
  }));
}

/** Throws the error of a run without an answer. */
function answerOf({ id, output, error, model, finish_reason }: RunRecord): string {
  if (error !== null) throw fromBody(error);
  const end = finish_reason === 'length' ? 'It was cut at its longest length. ' : '';
  return `${output}\n\n[${end}Run ${id}, model ${model}.]`;
}
