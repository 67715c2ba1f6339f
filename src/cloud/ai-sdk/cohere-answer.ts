import { asRecord } from '../../json.ts';
import { type Call, unassignedPieceError } from '../remote/calls.ts';
import { argumentsOf, EventAnswer, type Fields, isSet, listOf } from '../remote/event-answer.ts';
import { reasonOf, usageOf } from '../remote/finish.ts';

/** Reads the events of Cohere's chat, or a whole answer. A plan of tool calls is reasoning. */
export class CohereAnswer extends EventAnswer {
  private readonly open = new Map<unknown, Call | null>();

  document(value: unknown): boolean {
    const { message, finish_reason, usage } = asRecord(value);
    if (!isSet(finish_reason)) return false;
    const { content, tool_plan, tool_calls } = asRecord(message);
    this.text('reasoning', tool_plan);
    for (const part of listOf(content)) this.takeContent(part);
    for (const [index, call] of listOf(tool_calls).entries()) this.beginTool(index, call);
    this.read({ type: 'message-end', delta: { finish_reason, usage } });
    return true;
  }

  protected event(event: Fields): void {
    const { type, index, delta } = event;
    const { message, finish_reason: reason, usage, error } = asRecord(delta);
    const { content, tool_plan, tool_calls } = asRecord(message);
    this.text('reasoning', tool_plan);
    if (type === 'content-start' || type === 'content-delta') this.takeContent(content);
    else if (type === 'tool-call-start') this.beginTool(index, tool_calls);
    else if (type === 'tool-call-delta') {
      const call = this.open.get(index);
      if (call === undefined) throw unassignedPieceError();
      this.callText(call, argumentsOf(asRecord(asRecord(tool_calls).function).arguments));
    } else if (type === 'message-end') {
      if (isSet(error)) throw this.reportedFailure(error);
      if (typeof reason === 'string') this.reason = reason;
      this.usage = usage;
      this.markEnd();
    } else if (!isSet(type)) this.foreignEvent(event);
  }

  protected reasonOf(raw: string) {
    return raw.toLowerCase() === 'error_toxic' ? 'content_filter' : reasonOf(raw);
  }

  protected readUsage() {
    const { tokens, billed_units, cached_tokens } = asRecord(this.usage);
    const { input_tokens, output_tokens } = asRecord(tokens ?? billed_units);
    return usageOf({
      input: input_tokens,
      output: output_tokens,
      cached: cached_tokens,
      reasoning: undefined,
    });
  }

  private takeContent(content: unknown): void {
    const { text, thinking } = asRecord(content);
    this.text('reasoning', thinking);
    this.text('text', text);
  }

  private beginTool(index: unknown, value: unknown): void {
    const { id, function: called } = asRecord(value);
    const { name, arguments: input } = asRecord(called);
    const call = this.beginCall(id, name);
    this.open.set(index, call);
    this.callText(call, argumentsOf(input));
  }
}
