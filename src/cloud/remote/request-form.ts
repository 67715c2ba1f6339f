import { setNewest } from '../../async/newest.ts';

type Body = Record<string, unknown>;

/**
 * Fields that svc chooses itself, and that a server may want in another form. A choice of the
 * client has no row: a refused temperature stays an error that names it.
 */
const CHANGES: readonly { field: string; to: string | null }[] = [
  { field: 'max_tokens', to: 'max_completion_tokens' },
  { field: 'max_completion_tokens', to: 'max_tokens' },
  { field: 'stream_options', to: null },
  { field: 'include', to: null },
];
type Change = (typeof CHANGES)[number];

/**
 * How the models of one provider want their requests. It owns the refusals so far: each model that
 * refused a field gets the other form from then on.
 */
export class RequestForms {
  private readonly learned = new Map<string, readonly Change[]>();

  /** The body in the form that the model is known to want. */
  body(model: string, plain: Body | string): string {
    const changes = this.learned.get(model);
    if (changes === undefined) return typeof plain === 'string' ? plain : JSON.stringify(plain);
    return JSON.stringify(withChanges(objectOf(plain), changes));
  }

  /** The same after a refusal that names a field. Each change is tried once, then it is null. */
  retryBodyFor(
    model: string,
    plain: Body | string,
  ): (status: number, words: string) => string | null {
    const tried = new Set<Change>();
    return (status, words) => {
      if (!REFUSALS.has(status) || !UNKNOWN.test(words)) return null;
      const before = this.learned.get(model) ?? [];
      const sent = withChanges(objectOf(plain), before);
      const change = CHANGES.find((one) => !tried.has(one) && refuses(words, sent, one));
      if (change === undefined) return null;
      tried.add(change);
      // A change that leads back is the end of the first one.
      const kept = before.filter(({ field }) => field !== change.to);
      this.remember(model, kept.length < before.length ? kept : [...before, change]);
      return this.body(model, plain);
    };
  }

  private remember(model: string, changes: readonly Change[]): void {
    this.learned.delete(model);
    if (changes.length > 0) setNewest(this.learned, model, changes, MODELS_MAX);
  }
}

const MODELS_MAX = 256;
const REFUSALS: ReadonlySet<number> = new Set([400, 422]);
const UNKNOWN = new RegExp(
  'unsupported|not supported|unrecognized|unknown|unexpected|not permitted|not allowed|' +
    'not implemented|extra|instead',
  'i',
);

function refuses(words: string, body: Body, { field, to }: Change): boolean {
  return (
    body[field] !== undefined &&
    has(words, field) &&
    (to === null || (body[to] === undefined && has(words, to)))
  );
}

/** Whether a text has a name as a whole word. */
function has(text: string, name: string): boolean {
  return new RegExp(`(^|\\W)${name}(\\W|$)`).test(text);
}

function withChanges(body: Body, changes: readonly Change[]): Body {
  const all = { ...body };
  for (const { field, to } of changes) {
    const value = all[field];
    delete all[field];
    if (to !== null && value !== undefined) all[to] = value;
  }
  return all;
}

function objectOf(plain: Body | string): Body {
  return typeof plain === 'string' ? (JSON.parse(plain) as Body) : plain;
}
