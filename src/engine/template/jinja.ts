import { randomInt } from 'node:crypto';
import { openAddon, type Renderer } from '../native/addon.ts';
import { TemplateError } from './refusal.ts';

/**
 * A Jinja template of a model file, rendered by llama.cpp, as `llama-server` does.
 *
 * 1. Rendering cannot be interrupted, so only processes that can be killed do it.
 * 2. llama.cpp writes six digits of a number with a fraction, and takes none beyond 64 bits. Such
 *    numbers are therefore replaced while it renders.
 * 3. It writes the present time. A template that asks for the time therefore gets that of the run.
 */
export class JinjaTemplate {
  private readonly renderer: Renderer;
  private readonly isTimed: boolean;

  /** Throws TemplateError for a template that has a wrong form. */
  constructor(source: string) {
    this.isTimed = source.includes('strftime_now');
    const { AddonJinjaRenderer: Renderer } = openAddon();
    const whole = this.isTimed ? STRFTIME + source : source;
    this.renderer = this.explainErrors(() => new Renderer(whole));
  }

  /** `now`: the time that the template may write. Throws TemplateError. */
  render(variables: Readonly<Record<string, unknown>>, now: Date): string {
    const numbers = new Numbers();
    const own = numbers.hide(variables) as object;
    const values = { ...USUAL, ...timeValues(now, this.isTimed), ...own };
    return numbers.show(this.explainErrors(() => this.renderer.render(values)));
  }

  private explainErrors<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      throw explain(String((thrown as Error).message), this.isTimed ? 1 : 0);
    }
  }
}

/** What llama-server says of reasoning: there is some, and that of earlier turns is shown. */
const USUAL = {
  enable_thinking: true,
  preserve_thinking: true,
  clear_thinking: false,
  truncate_history_thinking: false,
  drop_thinking: false,
};

/** llama.cpp describes the error and its place in several lines. */
function explain(said: string, linesBefore: number): TemplateError {
  const [, refusal] = /Jinja Exception: (.*)/s.exec(said) ?? [];
  if (refusal !== undefined) return new TemplateError(refusal, true);
  const [, line] = / at line (\d+)/.exec(said) ?? [];
  const [, reason] =
    /\nError: ((?:.(?!\nError: ))*)$/s.exec(said) ?? /failed to [^:]+: (.*)/.exec(said) ?? [];
  const place = line === undefined ? '' : ` (line ${Number(line) - linesBefore})`;
  return new TemplateError(`${reason ?? said}${place}`, false);
}

/** Numbers that llama.cpp would write in another way. Each is a whole number while it renders. */
class Numbers {
  private readonly hidden: number[] = [];

  /** A copy of a value of JSON. */
  hide(value: unknown): unknown {
    if (typeof value === 'number') return this.place(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => this.hide(each));
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, this.hide(each)]));
  }

  show(text: string): string {
    if (this.hidden.length === 0) return text;
    return text.replace(PLACES, (place, at) => String(this.hidden[Number(at)] ?? place));
  }

  private place(value: number): number {
    if (Number.isSafeInteger(value) || this.hidden.length > 10 ** PLACE_DIGITS - 1) return value;
    return PLACE * 10 ** PLACE_DIGITS + this.hidden.push(value) - 1;
  }
}

/** No text has it by chance. */
const PLACE = randomInt(10 ** 9, 9 * 10 ** 9);
const PLACE_DIGITS = 6;
const PLACES = new RegExp(`${PLACE}(\\d{${PLACE_DIGITS}})`, 'g');

/** In place of the function of llama.cpp. The line after it counts as the first one. */
const STRFTIME =
  '{%- macro strftime_now(format) -%}{%- set svc = namespace(text=format) -%}' +
  '{%- for form, text in svc_now.items() -%}' +
  '{%- set svc.text = svc.text | replace(form, text) -%}{%- endfor -%}' +
  '{{- svc.text -}}{%- endmacro %}\n';

/** The time values of llama-server, and those that the macro needs. */
function timeValues(now: Date, isTimed: boolean): object {
  const svc_now = timeForms(now);
  const { '%d': day, '%b': month, '%Y': year } = svc_now;
  return {
    date_string: `${day} ${month} ${year}`,
    datetime: `${month} ${day} ${year}`,
    ...(isTimed ? { svc_now } : {}),
  };
}

/** The usual forms of Python's `strftime`, in English and in local time. */
function timeForms(now: Date): Record<string, string> {
  const two = (value: number) => String(value).padStart(2, '0');
  const formatDate = (options: Intl.DateTimeFormatOptions) => now.toLocaleString('en-US', options);
  const forms: Record<string, string> = {
    Y: String(now.getFullYear()),
    y: two(now.getFullYear() % 100),
    m: two(now.getMonth() + 1),
    B: formatDate({ month: 'long' }),
    b: formatDate({ month: 'short' }),
    d: two(now.getDate()),
    A: formatDate({ weekday: 'long' }),
    a: formatDate({ weekday: 'short' }),
    H: two(now.getHours()),
    I: two(now.getHours() % 12 || 12),
    p: now.getHours() < 12 ? 'AM' : 'PM',
    M: two(now.getMinutes()),
    S: two(now.getSeconds()),
  };
  return Object.fromEntries(
    Object.entries(forms).flatMap(([form, text]) => [
      [`%${form}`, text],
      [`%-${form}`, text.replace(/^0(?=\d)/, '')],
    ]),
  );
}
