//! A store, its entries, its usage, new directories, and the same of paired sites; benchmarks of a
//! store.

use std::sync::Arc;

use axum::extract::{Extension, Json, Path, State};
use axum::http::StatusCode;
use penstock_api::access::{Access, Principal, Role, StoreGrant};
use penstock_api::benchmark::{
    Benchmark, BenchmarkCleaned, BenchmarkCleanup, BenchmarkList, BenchmarkRequest,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{
    DirectoryRequest, EntriesQuery, EntryList, Page, SiteStoreView, StoreDetails, StoreUsage,
};
use penstock_proto::id::Name;

use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{Params, StrictBody, parsed};
use crate::operations::benchmarks::Benchmarks;
use crate::operations::stores::StoreBrowser;

type Caller = Extension<Principal>;
type Browser = State<Arc<StoreBrowser>>;
type Measuring = State<Arc<Benchmarks>>;

pub(super) async fn show(
    State(browser): Browser,
    Extension(caller): Caller,
    Path(store): Path<String>,
) -> Reply<StoreDetails> {
    let store: Name = parsed(&store)?;
    let rights = seen(&caller, &store)?;
    Ok(Json(browser.details(&store, rights).await?))
}

/// Returns the rights of a caller in a store that it may see. As in the list of stores, a user sees
/// those of its grants.
fn seen(caller: &Principal, store: &Name) -> Result<StoreGrant, Problem> {
    let rights = caller.rights_in(store);
    if caller.role == Role::User && rights == StoreGrant::default() {
        let title = format!("there is no store `{store}` that `{}` may use", caller.user);
        return Err(Problem::new(ProblemCode::StoreUnknown, title));
    }
    Ok(rights)
}

pub(super) async fn entries(
    State(browser): Browser,
    Extension(caller): Caller,
    Path(store): Path<String>,
    Params(query): Params<EntriesQuery>,
) -> Reply<EntryList> {
    let store = parsed(&store)?;
    caller.require_use(&store, Access::List, "list")?;
    Ok(Json(browser.entries(&store, &query).await?))
}

pub(super) async fn make_directory(
    State(browser): Browser,
    Extension(caller): Caller,
    Path(store): Path<String>,
    StrictBody(request): StrictBody<DirectoryRequest>,
) -> Result<StatusCode, ProblemReply> {
    let store = parsed(&store)?;
    caller.require_use(&store, Access::Write, "write")?;
    browser.make_directory(&store, &request).await?;
    Ok(StatusCode::CREATED)
}

pub(super) async fn of_site(
    State(browser): Browser,
    Extension(caller): Caller,
    Path(site): Path<String>,
) -> Reply<Page<SiteStoreView>> {
    let site: Name = parsed(&site)?;
    if browser.is_own(&site) {
        let mut stores = browser.stores_of_site(&site).await?;
        stores.retain(|store| caller.may_use(&store.name, Access::List));
        return Ok(Json(Page::whole(stores)));
    }
    caller.require_other_sites()?;
    Ok(Json(Page::whole(browser.stores_of_site(&site).await?)))
}

pub(super) async fn entries_of_site(
    State(browser): Browser,
    Extension(caller): Caller,
    Path((site, store)): Path<(String, String)>,
    Params(query): Params<EntriesQuery>,
) -> Reply<EntryList> {
    let place = allowed(&browser, &caller, (&site, &store), (Access::List, "list"))?;
    Ok(Json(browser.entries_of_site((&place.0, &place.1), query).await?))
}

pub(super) async fn usage_of_site(
    State(browser): Browser,
    Extension(caller): Caller,
    Path((site, store)): Path<(String, String)>,
) -> Reply<StoreUsage> {
    let place = allowed(&browser, &caller, (&site, &store), (Access::List, "list"))?;
    Ok(Json(browser.usage_of_site((&place.0, &place.1)).await?))
}

pub(super) async fn make_directory_at(
    State(browser): Browser,
    Extension(caller): Caller,
    Path((site, store)): Path<(String, String)>,
    StrictBody(request): StrictBody<DirectoryRequest>,
) -> Result<StatusCode, ProblemReply> {
    let place = allowed(&browser, &caller, (&site, &store), (Access::Write, "write"))?;
    browser.make_directory_at((&place.0, &place.1), request).await?;
    Ok(StatusCode::CREATED)
}

pub(super) async fn benchmarks(
    State(benchmarks): Measuring,
    Extension(caller): Caller,
    Path(store): Path<String>,
) -> Reply<BenchmarkList> {
    let store: Name = parsed(&store)?;
    seen(&caller, &store)?;
    blocking(move || benchmarks.list(&store)).await.map(Json)
}

pub(super) async fn start_benchmark(
    State(benchmarks): Measuring,
    Extension(caller): Caller,
    Path(store): Path<String>,
    StrictBody(request): StrictBody<BenchmarkRequest>,
) -> Result<(StatusCode, Json<Benchmark>), ProblemReply> {
    let store: Name = parsed(&store)?;
    caller.require_use(&store, Access::Write, "write")?;
    let started = blocking(move || benchmarks.start(&store, &request, &caller)).await?;
    Ok((StatusCode::CREATED, Json(started)))
}

pub(super) async fn end_benchmark(
    State(benchmarks): Measuring,
    Extension(caller): Caller,
    Path((store, id)): Path<(String, String)>,
) -> Result<StatusCode, ProblemReply> {
    let store: Name = parsed(&store)?;
    caller.require_use(&store, Access::Write, "write")?;
    blocking(move || benchmarks.end(&store, parsed(&id)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn clean_benchmarks(
    State(benchmarks): Measuring,
    Extension(caller): Caller,
    Path(store): Path<String>,
    StrictBody(cleanup): StrictBody<BenchmarkCleanup>,
) -> Reply<BenchmarkCleaned> {
    let store: Name = parsed(&store)?;
    caller.require_use(&store, Access::Write, "write")?;
    blocking(move || benchmarks.clean(&store, &cleanup, &caller)).await.map(Json)
}

/// Returns site and store of a path, if the caller may use that store as far as this site says.
fn allowed(
    browser: &StoreBrowser,
    caller: &Principal,
    (site, store): (&str, &str),
    (access, words): (Access, &str),
) -> Result<(Name, Name), Problem> {
    let (site, store) = (parsed(site)?, parsed(store)?);
    match browser.is_own(&site) {
        true => caller.require_use(&store, access, words)?,
        false => caller.require_other_sites()?,
    }
    Ok((site, store))
}
