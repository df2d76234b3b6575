// The search of this site, in place of a web worker, which browsers do not start from files.
// The index is loaded and built at the first query.
window.Worker = class {
  constructor(url) {
    this.folder = url.replace(/worker\.js$/, "");
  }

  async postMessage(message) {
    if (message.init) {
      // The field of the query comes after this script.
      await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve));
      this.onmessage({ data: { config: { min_search_length: 3 } } });
      this.onmessage({ data: { allowSearch: true } });
      return;
    }
    this.query = message.query;
    this.index ??= this.load();
    const index = await this.index;
    if (message.query === this.query) {
      this.onmessage({ data: { results: index.search(message.query).map((one) => this.documents.get(one.ref)) } });
    }
  }

  async load() {
    await this.script("lunr.js");
    await this.script("search_index.js");
    this.documents = new Map(SEARCH_INDEX.docs.map((one) => [one.location, { ...one, summary: one.text.slice(0, 200) }]));
    return lunr(function () {
      this.field("title", { boost: 10 });
      this.field("text");
      this.ref("location");
      SEARCH_INDEX.docs.forEach((one) => this.add(one));
    });
  }

  script(name) {
    return new Promise((resolve, reject) => {
      const element = document.createElement("script");
      Object.assign(element, { src: this.folder + name, onload: resolve, onerror: reject });
      document.head.append(element);
    });
  }
};

