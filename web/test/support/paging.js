// Filter, order and page as the API does them, for the mock warden.

/**
 * @template {object} Row
 * @param {Row[]} list
 * @param {URLSearchParams} query
 * @param {string[]} filters keys of a row that the query may name
 */
export function page(list, query, filters) {
  /** @param {Row} row @param {string} key */
  const field = (row, key) => /** @type {Record<string, unknown>} */ (row)[key];
  const words = query.get('q')?.toLowerCase();
  const found = list.filter(
    (row) =>
      filters.every((key) => !query.has(key) || String(field(row, key)) === query.get(key)) &&
      (!words || says(row, words)),
  );
  const sort = query.get('sort');
  if (sort) {
    const key = sort.replace(/^-/, '');
    const sign = sort.startsWith('-') ? -1 : 1;
    found.sort((a, b) => order(field(a, key), field(b, key), sign));
  }
  const offset = Number(query.get('offset') ?? 0);
  const limit = Number(query.get('limit') ?? 100);
  return { rows: found.slice(offset, offset + limit), matching: found.length };
}

/** @param {object} row @param {string} words */
function says(row, words) {
  const texts = Object.values(row).filter((value) => typeof value === 'string');
  return texts.some((text) => text.toLowerCase().includes(words));
}

/** What is unknown comes last. @param {unknown} a @param {unknown} b @param {number} sign */
function order(a, b, sign) {
  if (a == null || b == null) return Number(a == null) - Number(b == null);
  if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
  return sign * String(a).localeCompare(String(b));
}
