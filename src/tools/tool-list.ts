import { createHash } from 'node:crypto';
import { asRecord, excessOf, isRecord } from '../json.ts';
import { jsonBudgets, type Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import type { ToolInfo } from '../ports/tools.ts';

/** The tools that a server lists, within the bounds. */
export interface ToolList {
  tools: readonly ToolInfo[];
  /** Why tools are left out, one text each. */
  left_out: readonly string[];
}

export class ToolLister {
  private readonly server: string;
  private readonly limits: Limits;
  private readonly tools = new Map<string, ToolInfo>();
  private readonly left_out: string[] = [];
  private bytes = 0;
  private count = 0;

  constructor(server: string, limits: Limits) {
    this.server = server;
    this.limits = limits;
  }

  get isFull(): boolean {
    return this.tools.size + this.left_out.length >= this.limits.mcp_tools;
  }

  get list(): ToolList {
    return { tools: [...this.tools.values()], left_out: this.left_out };
  }

  /**
   * Each tool is judged apart. A field that is null is absent, and a field that svc does not need
   * may have any form. A tool that cannot be used is left out, with the reason.
   */
  add(value: unknown): void {
    const { mcp_tools, mcp_tools_bytes, mcp_schema_bytes, mcp_description_bytes } = this.limits;
    this.count += 1;
    const { name, description, inputSchema, annotations } = asRecord(value);
    const isNamed = typeof name === 'string' && NAME.test(name);
    const schema = schemaOf(inputSchema);
    const json = JSON.stringify(schema);
    const text = typeof description === 'string' && description !== '' ? description : null;
    const bytes = Buffer.byteLength(json) + Math.min(text?.length ?? 0, mcp_description_bytes);
    const excess = excessOf(json, jsonBudgets.tool_schema);
    const problem = !isRecord(value)
      ? `tool ${this.count} of the list is not an object`
      : !isNamed
        ? `tool ${this.count} of the list has ${shownName(name)}`
        : this.tools.has(name)
          ? `${name} is listed twice`
          : schema === null
            ? `the schema of ${name} is not that of an object`
            : Buffer.byteLength(json) > mcp_schema_bytes
              ? `the schema of ${name} has more than ${mcp_schema_bytes} bytes`
              : excess !== null
                ? `the schema of ${name} has ${excess.message}`
                : this.tools.size >= mcp_tools
                  ? `there are more than ${mcp_tools} tools`
                  : this.bytes + bytes > mcp_tools_bytes
                    ? `all tools together have more than ${mcp_tools_bytes} bytes`
                    : null;
    if (problem !== null) {
      this.leaveOut(problem);
      return;
    }
    const hints = asRecord(annotations);
    this.bytes += bytes;
    this.tools.set(name as string, {
      server: this.server,
      tool: name as string,
      description: text === null ? null : cutBytes(text, mcp_description_bytes),
      schema: schema as Schema,
      read_only: hints.readOnlyHint === true,
      idempotent: hints.idempotentHint === true,
      destructive: hints.readOnlyHint !== true && hints.destructiveHint !== false,
      digest: digestOf({ description: text, schema, annotations: hints }),
    });
  }

  private leaveOut(problem: string): void {
    const { mcp_tools } = this.limits;
    const isLast = this.left_out.length === mcp_tools;
    if (isLast) this.left_out.push('more of its tools are left out');
    if (this.left_out.length < mcp_tools) this.left_out.push(problem);
  }
}

type Schema = ToolInfo['schema'];

/** The arguments of a call are an object. Null: not with this schema. */
function schemaOf(value: unknown): Schema | null {
  // Any value fits `true`, and so does any object.
  if (value == null || value === true) return { type: 'object' };
  if (!isRecord(value) || Array.isArray(value)) return null;
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  const { type = 'object', ...others } = Object.fromEntries(fields);
  const isObject = type === 'object' || (Array.isArray(type) && type.includes('object'));
  return isObject ? { type: 'object', ...others } : null;
}

function shownName(name: unknown): string {
  if (name == null) return 'no name';
  if (typeof name !== 'string') return 'a name that is not text';
  return `the name ${JSON.stringify(oneLine(name.slice(0, SHOWN_MAX)))}, which models do not take`;
}

const SHOWN_MAX = 80;
/** Names of tools are parts of commands and of messages. Models do not produce other names. */
const NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/** The same for the same content, whatever the order of its fields. */
export function digestOf(value: unknown): string {
  const sorted = JSON.stringify(value, (_, each: unknown) =>
    isRecord(each) && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
  return createHash('sha256').update(sorted).digest('hex');
}

/** The text up to a bound, with a mark if that is not all of it. */
export function cutBytes(text: string, most: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= most) return text;
  // A character that is cut in two leaves U+FFFD.
  const start = bytes
    .subarray(0, most)
    .toString('utf8')
    .replace(/\ufffd$/, '');
  return `${start}\n[svc: cut here; ${bytes.length} bytes in all, ${most} at most]`;
}
