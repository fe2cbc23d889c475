// A listing of the API as a table: pages, a filter and an order are the API's work, not the page's.

import { get, path } from "./api.js";
import { choose, chosen } from "./choices.js";
import { h, listen } from "./dom.js";
import { check, choice, field, input } from "./forms.js";
import { patch } from "./patch.js";
import { count, countOf, told } from "./text.js";

const SIZES = ["20", "50", "100", "500"];
const TYPING_MS = 300; // without a key, until the list is filtered
const sizeOfScreen = () => (matchMedia("(max-width: 40rem)").matches ? 20 : 100);

/**
 * columns: {title, value(row) -> text or elements, sort?: the API's name, number?, wide?, named?,
 * extra?: bool}; an `extra` one is shown if it is chosen. `segments` is the path below /api;
 * `keyOf` names a row among the others. One request at a time: what is asked for meanwhile is asked
 * once more at its end. `seen` is handed the rows; a `bare` one has pages, but no filter. Page,
 * filter, order and columns of the `main` list of a view are in the address.
 */
export class Listing {
  constructor(what, segments, columns, options = {}) {
    const { query = {}, paged = true, keyOf = null, size = 0, seen = null, main = false } = options;
    this.usual = size || sizeOfScreen();
    Object.assign(this, { what, segments, query, paged, keyOf, seen, main, all: columns });
    const given = (name) => (main ? chosen(name) : "");
    this.page = Number(given("page")) || 1;
    this.name = given("name");
    this.useRegex = given("regex") !== "";
    this.sort = given("sort");
    this.reverse = given("reverse") !== "";
    this.size = Number(given("rows")) || this.usual;
    this.titles = new Set(this.wanted(given("columns")));
    this.typing = 0;
    this.asked = null; // the request under way
    this.isWanted = false; // once more, when that is answered
    this.body = h("tbody", { role: "rowgroup" });
    this.headRow = h("tr", { role: "row" });
    this.pages = h("div", { class: "pages" });
    this.told = h("div", { role: "alert" });
    this.element = h(
      "section",
      { class: "card", "data-key": what },
      paged && !options.bare ? this.tools() : null,
      this.told,
      this.frame(),
      this.pages,
    );
    this.head();
  }

  frame() {
    const head = h("thead", { role: "rowgroup" }, this.headRow);
    return h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": this.what },
      h("table", { role: "table", "aria-label": this.what }, head, this.body),
    );
  }

  /** The columns that are shown, in their order. */
  get columns() {
    return this.all.filter(({ title }) => title === "" || this.titles.has(title));
  }

  /** Titles of columns: those in the address, those chosen before, or the usual ones. */
  wanted(given) {
    if (given) return given.split(",");
    const kept = this.main && localStorage.getItem(`warren.columns.${this.what}`);
    return kept ? kept.split(",") : this.usualTitles();
  }

  usualTitles() {
    return this.all.filter((column) => !column.extra).map((column) => column.title);
  }

  /** Choices that are not the usual ones, in the address and in this browser. */
  remember() {
    if (!this.main) return;
    const titles = this.columns.map((column) => column.title).filter(Boolean).join(",");
    const isUsual = titles === this.usualTitles().filter(Boolean).join(",");
    if (isUsual) localStorage.removeItem(`warren.columns.${this.what}`);
    else localStorage.setItem(`warren.columns.${this.what}`, titles);
    choose({
      page: this.page > 1 ? this.page : "",
      name: this.name,
      regex: this.useRegex ? "yes" : "",
      sort: this.sort,
      reverse: this.reverse ? "yes" : "",
      rows: this.size === this.usual ? "" : this.size,
      columns: isUsual ? "" : titles,
    });
  }

  tools() {
    const search = { type: "search", placeholder: "part of the name", value: this.name };
    const filter = input("name", search);
    const regex = h("input", { type: "checkbox", name: "regex", checked: this.useRegex });
    const sizes = choice("size", SIZES, String(this.size));
    const apply = () => {
      clearTimeout(this.typing);
      const now = [filter.value, regex.checked, Number(sizes.value)];
      if (now.join("\n") === [this.name, this.useRegex, this.size].join("\n")) return;
      [this.name, this.useRegex, this.size] = now;
      this.page = 1;
      this.again();
    };
    for (const each of [filter, regex, sizes]) each.addEventListener("change", apply);
    filter.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(apply, TYPING_MS);
    });
    const form = h(
      "form",
      { class: "tools", role: "search", "data-keep": true },
      field("Filter", filter),
      h("label", {}, regex, " regular expression"),
      field("Rows", sizes),
      this.main ? this.chooser() : null,
    );
    listen(form, "submit", (event) => {
      event.preventDefault();
      apply();
    });
    return form;
  }

  chooser() {
    const box = ({ title }) => {
      const it = check("column", title, this.titles.has(title));
      listen(it, "change", (event) => {
        if (event.target.checked) this.titles.add(title);
        else this.titles.delete(title);
        this.head();
        this.again();
      });
      return it;
    };
    const boxes = this.all.filter(({ title }) => title).map(box);
    return h("details", { class: "chooser" }, h("summary", {}, "Columns"), h("div", {}, boxes));
  }

  head() {
    const titles = this.columns.map((column) => {
      const sorted = column.sort && column.sort === this.sort;
      const order = sorted ? (this.reverse ? "descending" : "ascending") : null;
      const content = column.sort
        ? h("button", { type: "button", click: () => this.order(column.sort) }, column.title)
        : column.title || h("span", { class: "unseen" }, "more");
      const kind = [column.number ? "number" : "", column.sort ? "" : "plain"].join(" ").trim();
      const more = { scope: "col", role: "columnheader", class: kind, "aria-sort": order };
      return h("th", more, content);
    });
    patch(this.headRow, ...titles);
  }

  order(sort) {
    this.reverse = this.sort === sort && !this.reverse;
    this.sort = sort;
    this.page = 1;
    this.head();
    this.again();
  }

  /** Renew the rows on request; an error is shown here. */
  async again() {
    this.remember();
    try {
      await this.refresh();
    } catch (error) {
      this.told.replaceChildren(h("span", { class: "note bad" }, error.message));
    }
  }

  refresh() {
    if (this.asked !== null) {
      this.isWanted = true;
      return this.asked;
    }
    this.asked = this.ask().finally(() => {
      this.asked = null;
    });
    return this.asked;
  }

  async ask() {
    let answer;
    let fault;
    do {
      this.isWanted = false;
      fault = null;
      try {
        answer = await get(path(this.segments, this.asking()));
      } catch (error) {
        fault = error;
      }
    } while (this.isWanted);
    if (fault !== null) {
      if (fault.status !== 400 || this.page === 1) throw fault;
      this.page = 1; // the list has become shorter than the page that was shown
      await this.ask();
      return;
    }
    this.told.replaceChildren();
    const rows = Array.isArray(answer) ? answer : answer.items;
    this.show(rows, Array.isArray(answer) ? null : answer);
    if (this.seen) this.seen(rows);
  }

  asking() {
    const query = { ...this.query };
    if (this.paged) {
      Object.assign(query, { page: this.page, page_size: this.size, pagination: "true" });
      if (this.name) Object.assign(query, { name: this.name, use_regex: this.useRegex });
    }
    if (this.sort) Object.assign(query, { sort: this.sort, sort_reverse: this.reverse });
    return query;
  }

  show(rows, paging) {
    const none = () => {
      const cell = h("td", { class: "empty", role: "cell", colspan: this.columns.length });
      cell.append(`no ${this.what}`);
      return h("tr", { role: "row" }, cell);
    };
    patch(this.body, ...(rows.length ? rows.map((row) => this.row(row)) : [none()]));
    patch(this.pages, ...(paging ? this.turning(paging) : []));
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const kinds = ["number", "wide", "named"].filter((kind) => column[kind]);
      const kind = kinds.join(" ");
      const named = { role: "cell", class: kind, "data-label": column.title };
      const cell = h("td", named, valueOf(column, row));
      if (column.named) cell.title = cell.textContent; // where it does not fit
      return cell;
    });
    return h("tr", { role: "row", "data-key": this.keyOf ? this.keyOf(row) : null }, cells);
  }

  turning(paging) {
    const to = (page) => () => {
      this.page = page;
      this.again();
    };
    const last = Math.max(1, paging.page_count);
    const figures = `${count(paging.filtered_count)} of ${count(paging.total_count)} ${this.what}`;
    const turn = (label, page, disabled) =>
      h("button", { type: "button", disabled, click: to(page) }, label);
    return [
      turn("Previous", paging.page - 1, paging.page <= 1),
      h("span", {}, `page ${paging.page} of ${last}, ${figures}`),
      turn("Next", paging.page + 1, paging.page >= last),
    ];
  }
}

/** What a cell shows: one element, where there are several parts. */
function valueOf(column, row) {
  const value = column.value(row);
  return Array.isArray(value) ? h("span", { class: "value" }, value) : value;
}

/** A column of counts, sorted by the API. */
export function counted(title, key) {
  return { title, sort: key, number: true, value: (row) => countOf(row, key) };
}

/** A column of a rate that the API tells. */
export function speed(title, key) {
  const sort = `message_stats.${key}_details.rate`;
  return { title, sort, number: true, value: (row) => told(row.message_stats, key) };
}

/** A table of rows that are there already. */
export function table(what, columns, rows, keyOf = null) {
  const plain = columns.map((column) => ({ ...column, sort: "" }));
  const listing = new Listing(what, [], plain, { paged: false, keyOf });
  listing.show(rows, null);
  return listing.element;
}
