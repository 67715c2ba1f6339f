import type { BuiltIn } from '../config/mcp-file.ts';
import { SvcError } from '../errors.ts';
import { fileTools } from './built-in/files.ts';
import { type BuiltInTool, Refusal } from './built-in/tool.ts';
import { webTools } from './built-in/web.ts';
import type { Connection, ConnectionOptions } from './connection.ts';
import { cutBytes, ToolLister } from './tool-list.ts';

type Options = Pick<ConnectionOptions, 'name' | 'version' | 'limits' | 'onEnd'> & {
  /** Folders that no tool may reach. */
  closed: readonly string[];
};

/** The methods that svc calls of a running tool server. */
export type ServerConnection = Pick<
  Connection,
  'open' | 'list' | 'info' | 'call' | 'stop' | 'kill'
>;

/** Tools of svc itself, in the form of a connection to a server. They need no process. */
export function builtInConnection(
  { type, reach }: BuiltIn,
  { name, version, limits, onEnd, closed }: Options,
): ServerConnection {
  let tools: readonly BuiltInTool[] = [];
  const cut = (text: string) => cutBytes(text, limits.mcp_result_bytes);
  const list = async () => {
    const lister = new ToolLister(name, limits);
    for (const tool of tools) lister.add(tool);
    return lister.list;
  };
  const end = () => onEnd({ exit_code: null, signal: null });
  return {
    list,
    stop: end,
    kill: end,
    open: async () => {
      const isFiles = type === 'svc:files';
      const made = isFiles
        ? fileTools(reach, closed, limits)
        : Promise.resolve(webTools({ hosts: reach, version, limits }));
      tools = await made.catch((thrown) => {
        if (!(thrown instanceof Refusal)) throw thrown;
        throw new SvcError('mcp_unavailable', thrown.message, { retryable: false });
      });
      return list();
    },
    info: ({ tools: { length }, left_out }) => ({
      pid: null,
      server: `svc ${version}`,
      protocol: null,
      tools: length,
      left_out: left_out.length,
    }),
    // After the signal a tool may still work, such as on a disk that hangs.
    call: async (asked, args, { signal }) => {
      signal.throwIfAborted();
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      try {
        const tool = tools.find((each) => each.name === asked);
        const work =
          tool?.call(args, signal) ?? Promise.reject(new Refusal(`There is no ${asked}.`));
        return { text: cut(await Promise.race([work, aborted])), is_error: false };
      } catch (thrown) {
        if (thrown instanceof Refusal) return { text: cut(thrown.message), is_error: true };
        throw thrown;
      }
    },
  };
}
