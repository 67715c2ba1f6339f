// @ts-check

import { DIAGRAM_CHARACTERS } from '../bounds.js';
import { askText } from '../daemon/api.js';

/** The elements and attributes of a drawing. Everything else in a file is left out. */
const SHAPES = new Set([
  'svg',
  'g',
  'path',
  'polygon',
  'polyline',
  'ellipse',
  'circle',
  'rect',
  'line',
  'text',
  'tspan',
]);
const ATTRIBUTES = new Set(
  'viewBox d points x y x1 x2 y1 y2 cx cy r rx ry width height transform fill stroke stroke-width stroke-dasharray text-anchor font-family font-size font-weight font-style class'.split(
    ' ',
  ),
);
/** A line of the legend of fills. */
const LEGEND = /^■ /;
const SVG = 'http://www.w3.org/2000/svg';

/** @type {Map<string, Promise<SVGSVGElement>>} */
const drawn = new Map();

/**
 * The diagram of a machine as a part of this page. Its ids become `data-part` here.
 * @param {string} name
 * @returns {Promise<SVGSVGElement>}
 */
export async function diagramOf(name) {
  const known =
    drawn.get(name) ?? askText(`/v1/machines/${encodeURIComponent(name)}/diagram`).then(parse);
  drawn.set(name, known);
  known.catch(() => drawn.delete(name));
  return known;
}

/**
 * @param {string} text
 * @returns {SVGSVGElement}
 */
function parse(text) {
  const { documentElement } = new DOMParser().parseFromString(
    text.slice(0, DIAGRAM_CHARACTERS),
    'image/svg+xml',
  );
  if (documentElement.namespaceURI !== SVG || documentElement.localName !== 'svg')
    throw new Error('This is not a diagram.');
  return /** @type {SVGSVGElement} */ (copy(documentElement));
}

/** @param {Element} source */
function copy(source) {
  const target = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes)
    if (ATTRIBUTES.has(name) && !/url\s*\(/i.test(value)) target.setAttribute(name, value);
  if (source.id !== '') target.dataset.part = source.id;
  for (const child of source.childNodes) {
    // The page paints a state by its meaning, and has a legend for that.
    if (child instanceof Element && LEGEND.test(child.textContent ?? '')) continue;
    if (child instanceof Element && child.namespaceURI === SVG && SHAPES.has(child.localName))
      target.append(copy(child));
    else if (child instanceof Text && (source.localName === 'text' || source.localName === 'tspan'))
      target.append(child.data);
  }
  return target;
}
