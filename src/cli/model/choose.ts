import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { bytes } from '../print/format.ts';
import { isTerminal, note } from '../print/output.ts';
import { askUser } from '../print/question.ts';
import { table } from '../print/table.ts';
import { fitFrom, modelsToBegin } from './fitting.ts';

/**
 * The short name of a model that the user chooses from those that fit. Throws usage where there is
 * no one to ask, and for an answer that names none.
 */
export async function chosenModel(paths: Paths, json: boolean): Promise<string> {
  const offered = modelsToBegin(fitFrom(paths.config));
  const isAsked = !json && offered.length > 0 && isTerminal(0) && isTerminal(2);
  if (!json && offered.length > 0)
    note(
      table(
        ['TO DOWNLOAD ONE THAT FITS', 'SIZE', 'GOOD FOR'],
        offered.map(({ name, size_bytes, good_for }, index) => [
          `${isAsked ? `${index + 1}  ` : ''}svc model pull ${name}`,
          bytes(size_bytes),
          good_for,
        ]),
      ),
    );
  const answer = isAsked ? await askUser(`Which one? [1-${offered.length}] `) : '';
  const chosen = offered.find(({ name }, index) => [`${index + 1}`, name].includes(answer));
  if (chosen !== undefined) return chosen.name;
  throw new SvcError('usage', 'svc model pull needs the name of a model.', {
    hint:
      offered.length === 0
        ? 'No model with a short name fits well. See all: svc model search'
        : `For example: svc model pull ${offered.at(-1)?.name}. All of them: svc model search`,
    details: { models: offered },
  });
}
