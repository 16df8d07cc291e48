//! Handlers of endpoints, each registered by its entry in the table ([`penstock_api::endpoints`]).
//! Handlers and table fit each other, or nothing is served.

use anyhow::bail;
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use penstock_api::endpoints::{Endpoint, EndpointGroup, Method};

/// Handlers that share a state.
pub(crate) struct Handlers<S> {
    registered: Vec<(&'static Endpoint, MethodRouter<S>)>,
}

impl<S: Clone + Send + Sync + 'static> Handlers<S> {
    pub(crate) fn new() -> Self {
        Self { registered: Vec::new() }
    }

    /// Registers the handler of an endpoint.
    pub(crate) fn on<H: Handler<T, S>, T: 'static>(
        mut self,
        endpoint: &'static Endpoint,
        handler: H,
    ) -> Self {
        let filter = match endpoint.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        self.registered.push((endpoint, on(filter, handler)));
        self
    }

    /// Checks that each endpoint of a table has one handler, and that there are no others.
    ///
    /// # Errors
    /// One has none, or more than one; a handler is for an endpoint of no table.
    pub(crate) fn check(&self, table: &[EndpointGroup]) -> anyhow::Result<()> {
        let known = || table.iter().flat_map(|group| group.endpoints);
        for endpoint in known() {
            let found = self.registered.iter().filter(|(registered, _)| registered == endpoint);
            match found.count() {
                1 => {}
                0 => bail!("endpoint {} has no handler", endpoint.name),
                count => bail!("endpoint {} has {count} handlers", endpoint.name),
            }
        }
        match self.registered.iter().find(|(endpoint, _)| known().all(|known| known != endpoint)) {
            Some((endpoint, _)) => bail!("endpoint {} is not in the table", endpoint.name),
            None => Ok(()),
        }
    }

    /// Routes requests to the handlers of those endpoints that `wrap` returns.
    pub(crate) fn router(
        self,
        wrap: impl Fn(&'static Endpoint, MethodRouter<S>) -> Option<MethodRouter<S>>,
    ) -> Router<S> {
        self.registered.into_iter().fold(Router::new(), |router, (endpoint, route)| {
            match wrap(endpoint, route) {
                Some(route) => router.route(endpoint.path, route),
                None => router,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::endpoints::{CHECK_LIFE, GET_METRICS, LIST_PEERS};

    use super::*;

    static TABLE: [EndpointGroup; 1] =
        [EndpointGroup { name: "", endpoints: &[&CHECK_LIFE, &LIST_PEERS] }];

    async fn ok() {}

    /// Promise: an endpoint without a handler, with two, and a handler without an entry in the
    /// table are found before anything is served.
    #[test]
    fn handlers_and_table_fit_each_other() {
        let why = |handlers: Handlers<()>| {
            handlers.check(&TABLE).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let both = || Handlers::new().on(&CHECK_LIFE, ok).on(&LIST_PEERS, ok);
        assert_eq!(why(both()), "");
        assert_eq!(why(Handlers::new().on(&LIST_PEERS, ok)), "endpoint CHECK_LIFE has no handler");
        assert_eq!(why(both().on(&LIST_PEERS, ok)), "endpoint LIST_PEERS has 2 handlers");
        let more = both().on(&GET_METRICS, ok);
        assert_eq!(why(more), "endpoint GET_METRICS is not in the table");
    }
}
