import { oneLine } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { note, print, printJson } from '../terminal/print/output.ts';

/** Prints the id of a model that was not here before, and says how to ask it. */
export function printNewModel(model: Results['model.import'], json: boolean): void {
  if (json) printJson(model);
  else {
    print(oneLine(model.id));
    note(`Ask it with: ${oneLine(wayToAsk(model))}`);
  }
}

/** A model that writes no answers has no command: other programs ask it. */
function wayToAsk({ capabilities, name }: Results['model.import']): string {
  if (capabilities.includes('embedding')) return `POST /v1/embeddings, model local/${name}`;
  if (capabilities.includes('reranking')) return `POST /v1/rerank, model local/${name}`;
  return `svc run "…" --model ${name}`;
}
