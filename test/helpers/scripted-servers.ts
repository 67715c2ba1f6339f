import type { ToolPolicy } from '../../src/contract/words.ts';
import { SvcError } from '../../src/errors.ts';
import type { Call, ToolInfo, ToolResult, ToolServers } from '../../src/ports/tools.ts';

/** A tool, with what it does. By default a person is asked, and it cannot be repeated. */
export interface ScriptedTool {
  schema?: Record<string, unknown>;
  policy?: ToolPolicy;
  repeatable?: boolean;
  description?: string;
  run(
    args: unknown,
    signal: AbortSignal,
    report: (text: string) => void,
  ): Promise<ToolResult> | ToolResult;
}

/** Tool servers, by `server/tool`. They count the calls that were carried out, by id. */
export class ScriptedServers implements ToolServers {
  readonly tools_by_name: Record<string, ScriptedTool>;
  /** The ids of the calls that began, in their order. */
  readonly begun: string[] = [];
  /** How often the tools of a server were listed. */
  listed = 0;

  constructor(tools: Record<string, ScriptedTool>) {
    this.tools_by_name = tools;
  }

  names(): string[] {
    return [...new Set(Object.keys(this.tools_by_name).map((name) => name.split('/')[0] ?? ''))];
  }

  isChanged(): boolean {
    return false;
  }

  async close(): Promise<void> {}

  async tools(server: string): Promise<ToolInfo[]> {
    this.listed += 1;
    const found = Object.entries(this.tools_by_name)
      .map(([name, { schema = {}, description = null }]) => ({
        name: name.split('/'),
        schema,
        description,
      }))
      .filter(({ name }) => name[0] === server)
      .map(({ name, schema, description }) => ({
        server,
        tool: name[1] ?? '',
        description,
        schema,
        read_only: false,
        idempotent: false,
        destructive: false,
        digest: '',
      }));
    if (found.length === 0) throw new SvcError('tool_unknown', `There is no server ${server}.`);
    return found;
  }

  policy(server: string, { tool }: ToolInfo): ToolPolicy {
    return this.of(server, tool).policy ?? 'ask';
  }

  mayRepeat(server: string, { tool }: ToolInfo): boolean {
    return this.of(server, tool).repeatable ?? false;
  }

  target(server: string): string {
    return `scripted ${server}`;
  }

  async changes(): Promise<null> {
    return null;
  }

  async allowAlways(server: string, tool: string): Promise<void> {
    this.of(server, tool).policy = 'allow';
  }

  async call(
    server: string,
    tool: string,
    args: unknown,
    { id, signal, report = () => {} }: Call,
  ): Promise<ToolResult> {
    this.begun.push(id);
    return this.of(server, tool).run(args, signal, report);
  }

  private of(server: string, tool: string): ScriptedTool {
    const found = this.tools_by_name[`${server}/${tool}`];
    if (found === undefined) throw new Error(`no tool ${server}/${tool}`);
    return found;
  }
}
