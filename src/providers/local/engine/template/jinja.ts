import * as library from '@huggingface/jinja';

interface Value {
  type: string;
  value: unknown;
}
interface Node {
  type: string;
  [part: string]: unknown;
}
interface Environment {
  set(name: string, value: unknown): Value;
  setVariable(name: string, value: Value): Value;
}
/** Its declarations of types cannot be read by a module of Node. */
interface Library {
  Environment: new () => Environment;
  Interpreter: new (
    environment: Environment,
  ) => { run(program: Node): Value; evaluate(node: Node | undefined, scope: Environment): Value };
  parse(tokens: unknown): Node;
  tokenize(source: string, options: object): unknown;
}
const { Environment, Interpreter, parse, tokenize } = library as unknown as Library;

/**
 * Renders Jinja templates of model files with `@huggingface/jinja`, and what Python has beside it:
 * `%`, `*`, methods of texts and lists, and filters that public templates use.
 */
export class JinjaTemplate {
  private readonly program: Node;

  /** Throws Error for a template that has a wrong form. */
  constructor(source: string) {
    this.program = parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
  }

  /** `now`: the time that the template may write. Throws Error, also the template's. */
  render(variables: Readonly<Record<string, unknown>>, now: Date): string {
    const environment = new Environment();
    const globals = {
      ...CONSTANTS,
      range,
      raise_exception: (reason: unknown) => {
        throw new Error(String(reason));
      },
      strftime_now: (format: string) => strftime(format, now),
      ...variables,
    };
    for (const [name, value] of Object.entries(globals)) environment.set(name, value);
    environment.setVariable(
      'dict',
      method((args) => args.at(-1) ?? make({})),
    );
    return String(new PythonInterpreter(environment).run(this.program).value);
  }
}

const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

/** What the nodes that are read here have. */
type Parts = Node & {
  operator: { value: string };
  left: Node;
  right: Node;
  object: Node;
  operand: Node;
  iterable: Node;
  property: { value: string };
  computed: boolean;
  filter: Node & { value?: string; callee?: { value: string }; args?: Node[] };
};
type Arguments = readonly Value[];

/** A value of the interpreter. Its classes are not exported. */
function make(value: unknown): Value {
  return new Environment().set('value', value);
}

function method(call: (args: Arguments) => Value): Value {
  const made = make(() => null);
  (made as unknown as { value: typeof call }).value = call;
  return made;
}

function plain(value: Value | undefined): unknown {
  return value?.value;
}

const isText = (value: Value) => value.type === 'StringValue';
const isList = (value: Value) => Array.isArray(value.value);
const listOf = (value: Value | undefined) => (plain(value) ?? []) as Value[];

class PythonInterpreter extends Interpreter {
  override evaluate(node: Node | undefined, scope: Environment): Value {
    const parts = node as Parts;
    switch (node?.type) {
      case 'Known':
        return (node as unknown as { value: Value }).value;
      case 'For':
        return this.loop(parts, scope);
      case 'BinaryExpression':
        return this.operation(parts, scope);
      case 'MemberExpression':
        return this.member(parts, scope);
      case 'FilterExpression':
        return this.filtered(parts, scope);
      default:
        return super.evaluate(node, scope);
    }
  }

  /** In Jinja, what is not defined is an empty list. */
  private loop(node: Parts, scope: Environment): Value {
    if (node.iterable.type === 'SelectExpression') return super.evaluate(node, scope);
    const value = this.evaluate(node.iterable, scope);
    const iterable = known(value.type === 'UndefinedValue' ? make([]) : value);
    return super.evaluate({ ...node, iterable }, scope);
  }

  private operation(node: Parts, scope: Environment): Value {
    const operator = node.operator.value;
    if (operator !== '%' && operator !== '*') return super.evaluate(node, scope);
    const left = this.evaluate(node.left, scope);
    const right = this.evaluate(node.right, scope);
    if (operator === '%' && isText(left))
      return make(printf(String(left.value), isList(right) ? listOf(right) : [right]));
    const [repeated, times] = typeof right.value === 'number' ? [left, right] : [right, left];
    if (operator === '*' && typeof times.value === 'number') {
      const count = Math.max(0, times.value);
      if (isText(repeated)) return make(repeat(String(repeated.value), count));
    }
    return super.evaluate({ ...node, left: known(left), right: known(right) }, scope);
  }

  private member(node: Parts, scope: Environment): Value {
    const object = this.evaluate(node.object, scope);
    const value = super.evaluate({ ...node, object: known(object) }, scope);
    if (value.type !== 'UndefinedValue' || node.computed) return value;
    const methods = isText(object) ? TEXT_METHODS : isList(object) ? LIST_METHODS : MAP_METHODS;
    const call = Object.hasOwn(methods, node.property.value)
      ? methods[node.property.value]
      : undefined;
    return call === undefined ? value : method((args) => call(object, args));
  }

  private filtered(node: Parts, scope: Environment): Value {
    const operand = this.evaluate(node.operand, scope);
    const name = node.filter.value ?? node.filter.callee?.value ?? '';
    const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
    if (filter === undefined) return super.evaluate({ ...node, operand: known(operand) }, scope);
    return filter(
      operand,
      (node.filter.args ?? []).map((each) => this.evaluate(each, scope)),
    );
  }
}

/** A node that has been evaluated. */
function known(value: Value): Node {
  return { type: 'Known', value } as Node;
}

type Methods = Readonly<Record<string, (self: Value, args: Arguments) => Value>>;

const TEXT_METHODS: Methods = {
  join: (self, [list]) => make(listOf(list).map(String).join(String(self.value))),
  format: (self, args) => make(braces(String(self.value), args)),
  find: (self, [part]) => make(String(self.value).indexOf(String(part))),
  rfind: (self, [part]) => make(String(self.value).lastIndexOf(String(part))),
  count: (self, [part]) => make(String(self.value).split(String(part)).length - 1),
  isdigit: (self) => make(/^\d+$/.test(String(self.value))),
  isalpha: (self) => make(/^\p{L}+$/u.test(String(self.value))),
  splitlines: (self) => make(String(self.value).split(/\r\n|\r|\n/)),
  removeprefix: (self, [part]) => {
    const [text, prefix] = [String(self.value), String(part)];
    return make(text.startsWith(prefix) ? text.slice(prefix.length) : text);
  },
  removesuffix: (self, [part]) => {
    const [text, suffix] = [String(self.value), String(part)];
    return make(text.endsWith(suffix) ? text.slice(0, text.length - suffix.length) : text);
  },
};

const LIST_METHODS: Methods = {
  append: (self, [value]) => {
    if (value !== undefined) listOf(self).push(value);
    return make(null);
  },
  extend: (self, [more]) => {
    listOf(self).push(...listOf(more));
    return make(null);
  },
  count: (self, [value]) => make(listOf(self).filter((each) => each.value === plain(value)).length),
  index: (self, [value]) => make(listOf(self).findIndex((each) => each.value === plain(value))),
  pop: (self) => listOf(self).pop() ?? make(null),
};

const MAP_METHODS: Methods = {
  update: (self, [more]) => {
    const [map, entries] = [plain(self), plain(more)];
    if (map instanceof Map && entries instanceof Map)
      for (const [key, value] of entries) map.set(key, value);
    return make(null);
  },
};

const numbers = (list: Value) => listOf(list).map((each) => Number(each.value));
const extreme = (list: Value, sign: 1 | -1) =>
  [...listOf(list)].sort((a, b) => sign * (Number(a.value) - Number(b.value)))[0] ?? make(null);
const escaped: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};
const escapeMarkup = (self: Value) =>
  make(String(self).replace(/[&<>"']/g, (letter) => escaped[letter] ?? letter));

const FILTERS: Methods = {
  sum: (self) => make(numbers(self).reduce((sum, each) => sum + each, 0)),
  min: (self) => extreme(self, 1),
  max: (self) => extreme(self, -1),
  format: (self, args) => make(printf(String(self.value), args)),
  e: escapeMarkup,
  escape: escapeMarkup,
  batch: (self, [size]) => {
    const step = Math.max(1, Number(plain(size)));
    const list = listOf(self);
    const batches = Array.from({ length: Math.ceil(list.length / step) }, (_, at) => {
      const batch = make([]);
      listOf(batch).push(...list.slice(at * step, (at + 1) * step));
      return batch;
    });
    const made = make([]);
    listOf(made).push(...batches);
    return made;
  },
};

function repeat(text: string, count: number): string {
  if (text.length * count > REPEATED_MAX) throw new Error('the template repeats a text too often');
  return text.repeat(count);
}
const REPEATED_MAX = 1_000_000;

/** Python's `%` on a text. Throws Error for values that do not fit. */
function printf(format: string, values: readonly Value[]): string {
  let next = 0;
  return format.replace(/%([-0]?)(\d*)(?:\.(\d+))?([sdifxr%])/g, (_, flag, width, digits, kind) => {
    if (kind === '%') return '%';
    const value = values[next++];
    if (value === undefined) throw new Error('not enough values for the format of a text');
    const shown =
      kind === 'f'
        ? Number(value.value).toFixed(digits === undefined ? 6 : Number(digits))
        : kind === 'x'
          ? Number(value.value).toString(16)
          : kind === 'd' || kind === 'i'
            ? String(Math.trunc(Number(value.value)))
            : String(value);
    const size = Math.min(Number(width), WIDTH_MAX);
    return flag === '-' ? shown.padEnd(size) : shown.padStart(size, flag === '0' ? '0' : ' ');
  });
}
const WIDTH_MAX = 1000;

/** Python's `format`, with places and without forms of numbers. */
function braces(format: string, args: Arguments): string {
  let next = 0;
  return format.replace(/\{\{|\}\}|\{(\w*)\}/g, (whole, name?: string) => {
    if (name === undefined) return whole[0] ?? '';
    const named = plain(args.at(-1));
    const value =
      name === '' || /^\d+$/.test(name)
        ? args[name === '' ? next++ : Number(name)]
        : named instanceof Map
          ? (named.get(name) as Value | undefined)
          : undefined;
    if (value === undefined) throw new Error(`no value for ${whole} in the format of a text`);
    return String(value);
  });
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  if (step === 0) throw new Error('range() has a step of 0');
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (length > RANGE_MAX) throw new Error('range() has too many numbers');
  return Array.from({ length }, (_, at) => from + at * step);
}
/** As in the sandbox of Jinja. A list of all would use up the memory before the time limit. */
const RANGE_MAX = 100_000;

/** The usual forms of Python's `strftime`, in English and in local time. */
function strftime(format: string, now: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const named = (options: Intl.DateTimeFormatOptions) => now.toLocaleString('en-US', options);
  const forms: Readonly<Record<string, () => string>> = {
    Y: () => String(now.getFullYear()),
    y: () => two(now.getFullYear() % 100),
    m: () => two(now.getMonth() + 1),
    B: () => named({ month: 'long' }),
    b: () => named({ month: 'short' }),
    d: () => two(now.getDate()),
    A: () => named({ weekday: 'long' }),
    a: () => named({ weekday: 'short' }),
    H: () => two(now.getHours()),
    I: () => two(now.getHours() % 12 || 12),
    p: () => (now.getHours() < 12 ? 'AM' : 'PM'),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    '%': () => '%',
  };
  return format.replace(/%(-?)(.)/g, (whole, bare, form) => {
    const shown = forms[form]?.() ?? whole;
    return bare === '-' ? shown.replace(/^0(?=\d)/, '') : shown;
  });
}
