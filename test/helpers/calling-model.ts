import type { AttemptRequest, OutputPart } from '../../src/ports/providers.ts';
import { finish, output, ScriptedProvider } from './scripted-provider.ts';
import { waitFor } from './wait.ts';

/** A model that makes these calls in its turns, and then answers. */
export function callingModel(...turns: [name: string, args: string][][]): ScriptedProvider {
  return new ScriptedProvider('local', ({ request }: AttemptRequest): OutputPart[] => {
    const done = request.messages.filter(({ role }) => role === 'assistant').length;
    const calls = turns[done] ?? [];
    if (calls.length === 0) return [output('done', 1), finish()];
    return [
      output('I look. ', 2),
      ...calls.map(
        ([name, args], index): OutputPart => ({
          type: 'output',
          kind: 'tool_call',
          text: args,
          token_ids: [3],
          call: { id: `call_${done}_${index}`, name },
        }),
      ),
      { ...finish(), finish_reason: 'tool_calls' } as OutputPart,
    ];
  });
}

/** The run is over, and no more in memory. */
export function settled(kernel: { instances: { has(id: string): boolean } }, id: string) {
  return waitFor(`${id} has ended`, () => !kernel.instances.has(id));
}
