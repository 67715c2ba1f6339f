import { wrong } from '../../contract/check.ts';

/**
 * A request as the run contract has it. Nothing is checked here that the contract checks. Fields
 * that the client did not set are absent.
 */

type Fields = Readonly<Record<string, unknown>>;

export interface RunRequest extends Fields {
  messages?: readonly { role?: string; content?: readonly Fields[] }[];
  tools?: readonly Fields[];
  tool_choice?: { mode?: string; name?: string };
  response_format?: Fields;
  model?: string;
  more_models?: readonly string[];
  detach?: boolean;
}

export function runInputOf(request: RunRequest): object {
  const { detach: _, messages, tools, tool_choice, response_format, ...others } = request;
  const { model, more_models = [], ...rest } = others;
  const models = model === undefined ? more_models : [model, ...more_models];
  return {
    ...rest,
    ...(models.length === 0 ? {} : { model: models.length === 1 ? models[0] : models }),
    ...(messages === undefined ? {} : { messages: messages.map(messageOf) }),
    ...(tools === undefined ? {} : { tools: tools.map(toolOf) }),
    ...(tool_choice === undefined ? {} : { tool_choice: choiceOf(tool_choice) }),
    ...(response_format === undefined
      ? {}
      : { response_format: withJson(response_format, 'schema', 'response_format') }),
  };
}

function messageOf({ role = '', content = [] }: { role?: string; content?: readonly Fields[] }) {
  return { role, content: content.map(partOf) };
}

/** The one field that is set says what the part is. */
function partOf(part: Fields): object {
  const [type, value] = Object.entries(part)[0] ?? [];
  switch (type) {
    case 'text':
    case 'reasoning':
    case 'refusal':
      return { type, text: value };
    case 'image':
    case 'audio': {
      const { data, ...rest } = value as { data?: Buffer };
      return { type, media_type: '', ...rest, data: (data ?? Buffer.alloc(0)).toString('base64') };
    }
    case 'tool_call':
      return { type, id: '', name: '', arguments: '', ...(value as object) };
    case 'tool_result':
      return { type, id: '', text: '', ...(value as object) };
    default:
      return {};
  }
}

function toolOf(tool: Fields, index: number): object {
  return withJson({ name: '', ...tool }, 'parameters', `tools.${index}`);
}

function choiceOf({ mode, name }: { mode?: string; name?: string }): unknown {
  return name === undefined ? (mode ?? '') : { name };
}

/** The fields with the value of `<field>_json` as `field`. */
function withJson(fields: Fields, field: string, at: string): object {
  const { [`${field}_json`]: text, ...rest } = fields;
  if (text === undefined) return rest;
  const param = `${at}.${field}_json`;
  try {
    return { ...rest, [field]: JSON.parse(text as string) };
  } catch {
    throw wrong(param, `${param} is not JSON.`);
  }
}
