/** Texts of the formats that a grammar enforces, without their quotes. */
const FORMATS: Readonly<Record<string, string>> = {
  date:
    '[0-9]{4} "-" (("0" [13578] | "1" [02]) "-" (day | "29" | "3" [01])' +
    ' | ("0" [469] | "11") "-" (day | "29" | "30") | "02-" day)',
  time: '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? zone',
  'date-time': 'format-date "T" format-time',
  duration: '"P" (count "W" | count "D" ("T" clock)? | "T" clock)',
  email:
    '[a-zA-Z0-9_+-]{1,20} ("." [a-zA-Z0-9_+-]{1,20}){0,3} "@"' + ' (label "."){1,3} [a-zA-Z]{2,20}',
  hostname: 'label ("." label){1,3}',
  ipv4: 'octet ("." octet){3}',
  ipv6: 'group (":" group){7}',
  uri:
    '[a-z] [a-z0-9+.-]{1,10} "://" format-hostname (":" [1-9] [0-9]{0,3})?' +
    ' ("/" [a-zA-Z0-9._~-]{0,64}){0,8} ("?" [a-zA-Z0-9._~=&-]{1,64})?',
  uuid: '[0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12}',
};

/** Rules that the formats name. */
const PARTS: Readonly<Record<string, string>> = {
  day: '"0" [1-9] | "1" [0-9] | "2" [0-8]',
  zone: '"Z" | [+-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]',
  count: '"0" | [1-9] [0-9]{0,5}',
  clock: 'count "H" (count "M" (count "S")?)? | count "M" (count "S")? | count "S"',
  label: '[a-zA-Z0-9] ([a-zA-Z0-9-]{0,30} [a-zA-Z0-9])?',
  octet: '"25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9]? [0-9]',
  group: '[0-9a-f]{1,4}',
};

/** The rule of each format with its quotes. */
export const FORMAT_RULES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(FORMATS).map((name) => [name, `"\\"" format-${name} "\\""`]),
);

export const FORMAT_PARTS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.entries(FORMATS).map(([name, rule]) => [`format-${name}`, rule])),
  ...PARTS,
};
