//! Who answers what is not the clients' side: the operators' API and the pages, given as a
//! service so that no web framework is on the proxying path.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower::{Service, ServiceExt, util::BoxCloneSyncService};

use super::body::{BoxError, FallbackBody};

type Inner = BoxCloneSyncService<Request<Incoming>, Response<FallbackBody>, Infallible>;

/// Where a request came from; among the extensions of what the fallback is asked.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub SocketAddr);

/// See the module. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Fallback(Option<Arc<Inner>>);

impl Fallback {
    /// Nobody: every path that is not the clients' gets 404.
    pub fn none() -> Self {
        Self(None)
    }

    /// Any infallible HTTP service, an `axum::Router` for one.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let boxed = service.map_response(|response: Response<B>| {
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        });
        Self(Some(Arc::new(BoxCloneSyncService::new(boxed))))
    }

    /// The answer, or the request back where nobody is there.
    pub(super) async fn call(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<FallbackBody>, Box<Request<Incoming>>> {
        let Some(service) = &self.0 else {
            return Err(Box::new(request));
        };
        let service = Inner::clone(service);
        match service.oneshot(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }
}
