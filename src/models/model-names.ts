import { suggest } from '../config/suggest.ts';
import { SvcError } from '../errors.ts';
import { findKnown, isShortName } from './catalogue.ts';

/** A name without its provider. */
export function shortName(id: string): string {
  return id.replace(/^local\//, '');
}

/** The names that begin so, in any case, also after the name of a program or an organisation. */
export function namesFrom(name: string, known: readonly string[]): string[] {
  const wanted = shortName(name).toLowerCase();
  if (wanted.length < BEGINNING_MIN) return [];
  return known.filter((each) => {
    const whole = each.toLowerCase();
    return whole.startsWith(wanted) || whole.includes(`/${wanted}`);
  });
}

/** A single letter is rather a mistake. */
const BEGINNING_MIN = 2;

/** A longer list is not read. */
const KNOWN_MAX = 20;

/**
 * The error for a name without a model: the known names, and the name that was probably meant. The
 * message has it all, since the failure of a run keeps no hint.
 */
export function unknownModel(
  name: string,
  { short, isPath, known }: { short: string; isPath: boolean; known: readonly string[] },
): SvcError {
  const what = isPath
    ? 'There is no GGUF file that the daemon can read, and no model,'
    : 'There is no model';
  const several = namesFrom(name, known);
  const near = suggest(short, known);
  const pullable = isShortName(short) ? findKnown(short) : null;
  const advice =
    several.length > 1
      ? ` Did you mean one of these: ${several.slice(0, KNOWN_MAX).join(', ')}?`
      : pullable !== null
        ? ` Download it with: svc model pull ${pullable.name}`
        : near !== null
          ? ` Did you mean ${near}?`
          : '';
  const rest = known.length > KNOWN_MAX ? `, and ${known.length - KNOWN_MAX} more` : '';
  const list = `${known.slice(0, KNOWN_MAX).join(', ')}${rest}`;
  return new SvcError(
    'model_unknown',
    `${what} ${JSON.stringify(name)}. Known: ${list}.${advice}`,
    { param: 'model', hint: 'See: svc model list', details: { known } },
  );
}
